"""Every query of the dashboard gets an answer from a Prometheus that scrapes the metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.monitoring.conftest import MONITORING
from tests.servers.prometheus import Prometheus

DASHBOARD: dict[str, Any] = json.loads((MONITORING / "grafana" / "rmq.json").read_text("utf-8"))
VARIABLES: list[dict[str, Any]] = DASHBOARD["templating"]["list"]
FILLED = {"$queue": ".*", "$instance": ".*", "$__rate_interval": "5s", "$__range": "1m"}
HISTOGRAMS = {"rmq_wait_seconds", "rmq_processing_seconds"}
METRIC = re.compile(r"\brmq_\w+")


def panels(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for panel in entries:
        yield panel
        yield from panels(panel.get("panels", []))


PANELS = [panel for panel in panels(DASHBOARD["panels"]) if panel["type"] != "row"]
TARGETS = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
MARKS = [(mark["name"], mark["expr"]) for mark in DASHBOARD["annotations"]["list"] if "expr" in mark]


def filled(expression: str) -> str:
    for name, value in FILLED.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, f"a variable without a value: {expression}"
    return expression


@pytest.mark.parametrize(("title", "expression"), [*TARGETS, *MARKS])
def test_a_query_of_the_dashboard_gets_an_answer(title: str, expression: str, prometheus: Prometheus) -> None:
    found = prometheus.query(filled(expression))
    assert found, f"{title}: nothing"
    assert {sample["value"][1] for sample in found} != {"NaN"}  # which a queue has whose messages nobody claims now


def test_the_variables_list_the_queues_and_the_servers(prometheus: Prometheus) -> None:
    asked = {each["name"]: each["query"]["query"] for each in VARIABLES if each["type"] == "query"}
    assert set(asked) == {"queue", "instance"}
    for query in asked.values():
        metric, label = re.fullmatch(r"label_values\((\w+).*, (\w+)\)", query).groups()  # type: ignore[union-attr]
        assert all(sample["metric"].get(label) for sample in prometheus.query(metric))
    assert {sample["metric"]["queue"] for sample in prometheus.query("rmq_queue_readable")} == {
        "flights",
        "airports",
        "carriers",
    }


def scraped(prometheus: Prometheus) -> set[str]:
    """Return the names of RMQ's metrics; a histogram is there by its own name and by that of its buckets."""
    names = {name for name in prometheus.get("label/__name__/values") if name.startswith("rmq_")}
    return {name.removesuffix("_count").removesuffix("_sum") for name in names}


def test_every_metric_that_prometheus_has_is_on_the_dashboard(prometheus: Prometheus) -> None:
    shown = {name for _, expression in TARGETS for name in METRIC.findall(expression)}
    assert scraped(prometheus) - HISTOGRAMS == shown  # those are drawn from their buckets
