from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring.exporter import running_exporter
from tests.monitoring.served import running_serve
from tests.servers.process import until
from tests.servers.prometheus import Prometheus, running_prometheus

MONITORING = Path(__file__).parents[2] / "monitoring"
RULES_FILE = MONITORING / "prometheus" / "rules.yml"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(RULES_FILE.read_text("utf-8"))["groups"] for rule in group["rules"]
]


SOURCES = {"exporter": running_exporter}
if find_spec("rmq_console.serve"):  # the exporter has every value, the real one the names and labels that are true
    SOURCES["serve"] = running_serve


@pytest.fixture(scope="package", params=SOURCES)
def metrics(request: pytest.FixtureRequest) -> Iterator[str]:
    """Host and port at which /metrics is served."""
    with SOURCES[request.param]() as address:
        yield address


@pytest.fixture(scope="package")
def prometheus(metrics: str) -> Iterator[Prometheus]:
    """A Prometheus with our configuration and rules that has scraped the metrics several times."""
    config = yaml.safe_load((MONITORING / "prometheus" / "prometheus.yml").read_text("utf-8"))
    config["global"] |= {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(RULES_FILE)]
    for job in config["scrape_configs"]:
        job["static_configs"] = [{"targets": [metrics]}]
    with running_prometheus(json.dumps(config)) as server:
        until(lambda: _scraped(server) >= 4, 60, 0.2)
        yield server


def _scraped(server: Prometheus) -> int:
    found = server.query("count_over_time(rmq_up[1m])")
    return int(found[0]["value"][1]) if found else 0
