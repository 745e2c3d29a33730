"""What Airflow itself reports about the provider."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
from airflow.providers_manager import ProvidersManager

from rmq_airflow.get_provider_info import get_provider_info


@pytest.fixture(scope="module")
def manager() -> ProvidersManager:
    return ProvidersManager()


def test_airflow_lists_the_provider(manager: ProvidersManager) -> None:
    data = manager.providers["rmq"].data
    assert data["name"] == "Redis Work Queue (RMQ)"
    assert "not RabbitMQ" in data["description"], "another provider, airflow-provider-rmq, is for RabbitMQ"


LISTED = {
    "list": {"rmq"},
    "hooks": {"redis_queue", "Redis Queue"},
    "triggers": {f"rmq_airflow.triggers.{name}" for name in ("depth", "sensor", "shared_stream", "watcher")},
    "queues": {"rmq_airflow.queues.redis_queue.RedisQueueMessageQueueProvider"},
}


@pytest.mark.parametrize("command", LISTED)
def test_the_airflow_command_line_lists_its_components(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = listed("providers", command, capsys=capsys)
    assert LISTED[command] <= {text for row in found for text in row.values()}


def listed(*words: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return what `airflow WORDS` prints."""
    from airflow.cli.cli_parser import get_parser

    arguments = get_parser().parse_args([*words, "--output", "json"])
    capsys.readouterr()
    arguments.func(arguments)
    printed = capsys.readouterr().out
    return list(json.loads(printed[printed.index("[{") :]))


def test_airflow_shows_every_field_of_the_form(manager: ProvidersManager) -> None:
    (described,) = get_provider_info()["connection-types"]
    shown = manager.connection_form_widgets
    assert {f"extra__redis_queue__{name}" for name in described["conn-fields"]} <= set(shown)
    for name in ("sentinel_password", "ssl_password"):
        assert shown[f"extra__redis_queue__{name}"].is_sensitive
    assert manager.field_behaviours["redis_queue"]["hidden_fields"] == ["schema"]


@pytest.mark.parametrize("module", ["rmq_airflow", "rmq_airflow.get_provider_info"])
def test_modules_that_airflow_loads_in_every_process_import_little(module: str) -> None:
    source = importlib.import_module(module).__file__
    assert source is not None
    with open(source, encoding="utf-8") as file:  # noqa: PTH123  a path that Python made
        lines = [line for line in file if line.startswith(("import ", "from "))]
    assert {line.split()[1] for line in lines} <= {"__future__", "typing"}
