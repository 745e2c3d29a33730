"""The manifests have the fields that KEDA and Kubernetes know, and their queries get an answer from a Prometheus."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import Any

import yaml

from tests.monitoring.conftest import MONITORING
from tests.servers.prometheus import Prometheus

FOLDER = MONITORING.parent / "deploy/kubernetes"
ADAPTER: dict[str, Any] = yaml.safe_load((FOLDER / "prometheus-adapter.yaml").read_text("utf-8"))
RESOURCES: list[dict[str, Any]] = [
    resource
    for file in sorted(FOLDER.glob("*.yaml"))
    for resource in yaml.safe_load_all(file.read_text("utf-8"))
    if "apiVersion" in resource
]
TRIGGERS = {
    trigger["type"]: trigger
    for resource in RESOURCES
    if resource["kind"] == "ScaledObject"
    for trigger in resource["spec"]["triggers"]
}
(AUTOSCALER,) = (resource for resource in RESOURCES if resource["kind"] == "HorizontalPodAutoscaler")
(EXTERNAL,) = (metric["external"] for metric in AUTOSCALER["spec"]["metrics"])


def test_the_secret_that_a_trigger_names_is_defined() -> None:
    (defined,) = (each["metadata"]["name"] for each in RESOURCES if each["kind"] == "TriggerAuthentication")
    assert TRIGGERS["metrics-api"]["authenticationRef"]["name"] == defined
    assert re.fullmatch(r"http://rmq:8484/keda/\w+", TRIGGERS["metrics-api"]["metadata"]["url"])


def test_the_answer_to_keda_has_the_number_that_the_trigger_reads(metrics: str) -> None:
    about = TRIGGERS["metrics-api"]["metadata"]
    with urllib.request.urlopen(about["url"].replace("rmq:8484", metrics), timeout=30) as reply:
        answer = json.load(reply)
    assert answer[about["valueLocation"]] == answer["ready"] + answer["leased"] == 60


def test_the_query_of_keda_counts_the_messages_that_need_a_consumer(prometheus: Prometheus) -> None:
    (sample,) = prometheus.query(TRIGGERS["prometheus"]["metadata"]["query"])
    assert float(sample["value"][1]) == 60  # 40 are ready, 20 leased


def test_the_adapter_offers_the_metric_that_the_autoscaler_asks_for(prometheus: Prometheus) -> None:
    (rule,) = ADAPTER["rules"]["external"]
    assert rule["name"]["as"] == EXTERNAL["metric"]["name"]
    wanted = ",".join(f'{key}="{value}"' for key, value in EXTERNAL["metric"]["selector"]["matchLabels"].items())
    assert len(prometheus.query(rule["seriesQuery"])) == 3
    (sample,) = prometheus.query(rule["metricsQuery"].replace("<<.LabelMatchers>>", wanted))
    assert float(sample["value"][1]) == 60
