"""The event-driven example: its watcher fires for messages in the queue, and its run drains it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rmq_core import LeasedQueue
from tests.airflow.home import EXAMPLES
from tests.airflow.runs import load, states, xcom
from tests.faults.patience import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    # Airflow reads .airflowignore with a class that the library behind it has renamed.
    pytest.mark.filterwarnings("ignore:GitWildMatchPattern"),
]


@pytest.fixture
def dag(tmp_path: Path, airflow_database: None, connection: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES)
    made = load("event_driven", EXAMPLES, "examples")
    monkeypatch.setattr("weather.RESULTS", tmp_path)
    return made


async def next_ring(trigger: Any) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        return dict((await anext(trigger.run())).payload)


def test_the_watcher_starts_a_run_that_drains_the_queue_and_an_empty_run_succeeds(dag: Any, secured_url: str) -> None:
    from weather import airport_months, written

    (asset,) = dag.timetable.asset_condition.objects
    assert asset.uri == "rmq://localhost:6379/0/airport-months-that-arrive"
    (watcher,) = asset.watchers
    with LeasedQueue(secured_url, "airport-months-that-arrive") as queue:
        queue.publish_many(airport_months())
        assert asyncio.run(next_ring(watcher.trigger))["ready"] == 36
        first, second = dag.test(), dag.test()
        assert queue.stats()[:5] == (0, 0, 0, 0, 0)
    assert set(states(first).values()) == set(states(second).values()) == {"success"}
    assert (xcom(first, "work")["acked"], xcom(second, "work")["claimed"]) == (36, 0)
    assert written("event_driven")["months"] == 36
