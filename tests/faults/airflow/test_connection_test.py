"""The test of a connection on a worker, which only a deployed Airflow supports: the API server passes it on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.faults.airflow.rest import Rest
from tests.faults.airflow.scene import PATIENCE_S, World
from tests.servers.process import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly(
        "airflow/test_connection_test.py::test_a_wrong_extra_fails_the_connection_test_and_the_hook_although_the_server_answers"
    ),
]
PASSWORD = "c@nary/50%:#?"


@pytest.fixture
def places(deployed: World) -> dict[str, dict[str, Any]]:
    """Servers as the form may describe them, and values that are not a server."""
    with deployed.redis.client() as client:
        client.execute_command("ACL", "SETUSER", "worker", "reset", "on", f">{PASSWORD}", "~*", "&*", "+@all")
    single = {"host": "127.0.0.1", "port": deployed.redis.port, "login": "worker"}
    return {
        "fields": {**single, "password": PASSWORD, "extra": {"db": 1, "lease": 20, "discipline": "leased"}},
        "url": {"login": "worker", "password": PASSWORD, "extra": {"url": deployed.redis.url}},
        "stranger": {**single, "password": "wrong-9d1"},
        "nobody": {"host": "127.0.0.1", "port": 1},
        "nonsense": {"extra": {"url": "http://h"}},
    }


def test_a_worker_reports_the_same_as_the_test_button(deployed: World, places: dict[str, dict[str, Any]]) -> None:
    tokens = {name: _enqueue(deployed.airflow.rest, name, place) for name, place in places.items()}
    said = {name: _await(deployed.airflow.rest, token) for name, token in tokens.items()}
    for name in ("fields", "url"):
        assert said[name][0] == "success", said
        assert "answers, runs scripts, and its clock is" in str(said[name][1])
    for name, why in {"stranger": "refused the `username`", "nobody": "did not answer", "nonsense": "scheme"}.items():
        assert said[name][0] == "failed", said
        assert why in str(said[name][1])
    assert "wrong-9d1" not in str(said)


def _enqueue(rest: Rest, name: str, place: dict[str, Any]) -> str:
    extra = json.dumps(place.get("extra", {}))
    return rest.enqueue_test({"connection_id": name, "conn_type": "redis_queue", **place, "extra": extra})


def _await(rest: Rest, token: str) -> tuple[str, str | None]:
    until(lambda: rest.tested(token)[0] in ("success", "failed"), PATIENCE_S, pace_s=0.2)
    return rest.tested(token)
