"""The small examples, run unchanged: they print what their docstrings promise."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmq_core import LeasedConfig, LeasedQueue
from tests.airflow.floor import CALLBACKS_GET_EXCEPTIONS
from tests.airflow.home import EXAMPLES
from tests.airflow.runs import complaints, load, states, xcom

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("connection", "airflow_database"),
    # Airflow reads .airflowignore with a class that the library behind it has renamed.
    pytest.mark.filterwarnings("ignore:GitWildMatchPattern"),
]

MONTHS, HOURS = 36, 26_115
MISTAKE = re.compile(r"Message \S+ failed: ValueError .*in month 13")
Run = Callable[[str], Any]


@pytest.fixture
def run_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run an example with its results in the test's own folder; every task succeeds, and complains of mistakes only."""

    def run(name: str) -> Any:
        dag = load(name, EXAMPLES, "examples")
        monkeypatch.setattr("weather.RESULTS", tmp_path)
        finished = dag.test()
        assert set(states(finished).values()) == {"success"}
        return finished

    monkeypatch.syspath_prepend(EXAMPLES)
    yield run
    assert [line for line in complaints(capfd.readouterr().out) if not MISTAKE.search(line)] == []


def asset_events() -> list[tuple[str, Any]]:
    """Return the queue and the extra of every event that `publish` left in the database."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session

    with create_session() as session:
        events = session.query(AssetModel.uri, AssetEvent.extra).join(AssetEvent, AssetEvent.asset_id == AssetModel.id)
        of_the_example = events.filter(AssetEvent.source_dag_id == "publish_and_consume").all()
    assert all(uri.startswith("rmq://") for uri, _ in of_the_example)
    return [(uri[uri.rindex("/") :], extra) for uri, extra in of_the_example]


def stats(url: str, queue: str) -> tuple[int, ...]:
    with LeasedQueue(url, queue) as opened:
        return opened.stats()[:5]


def test_publish_and_consume_does_each_month_once_and_nothing_in_a_second_run(
    run_example: Run, secured_url: str
) -> None:
    first, second = (xcom(run_example("publish_and_consume"), "report") for _ in range(2))
    assert (first["acked"], first["failed"], first["months"], first["hours"]) == (MONTHS, 0, MONTHS, HOURS)
    assert (second["claimed"], second["months"]) == (0, MONTHS)
    assert asset_events() == [("/airport-months", {"accepted": MONTHS})], "the second run accepted nothing"
    assert stats(secured_url, "airport-months") == (0, 0, 0, 0, 0)


def test_the_first_queue_greets_slowly_enough_to_be_killed(
    run_example: Run, secured_url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    slept, sleep = [], time.sleep
    monkeypatch.setattr("time.sleep", lambda seconds: slept.append(seconds) if seconds == 10 else sleep(seconds))
    run_example("first_queue")
    assert slept == [10, 10, 10]
    assert re.findall(r"HELLO, says process \d+", capfd.readouterr().out)
    assert stats(secured_url, "greetings") == (0, 0, 0, 0, 0)


def test_hand_over_leaves_nothing_to_settle(run_example: Run, secured_url: str) -> None:
    finished = run_example("hand_over")
    assert xcom(finished, "work") == MONTHS
    assert xcom(finished, "give_back")["settled"] == 0
    assert stats(secured_url, "airport-months-to-hand-over") == (0, 0, 0, 0, 0)


def test_fan_out_shares_the_months_among_three_tasks(run_example: Run, secured_url: str) -> None:
    finished = run_example("fan_out")
    assert xcom(finished, "total") == {"months": MONTHS, "hours": HOURS}
    assert len([ti for ti in finished.get_task_instances() if ti.task_id == "work"]) == 3
    assert stats(secured_url, "airport-months-to-fan-out") == (0, 0, 0, 0, 0)


def test_redrive_makes_the_dead_letters_ready_again(run_example: Run, secured_url: str) -> None:
    finished = run_example("redrive")
    consumed, seen, again = (xcom(finished, name) for name in ("consume", "watch", "again"))
    assert (consumed["acked"], consumed["failed"], consumed["dead"]) == (MONTHS, 4, 2)
    assert seen["dead"] == 2
    assert xcom(finished, "redrive")["redriven"] == 2
    assert (again["acked"], again["failed"]) == (2, 0)
    assert stats(secured_url, "airport-months-with-mistakes") == (0, 0, 0, 0, 0)


def test_the_report_of_a_publication_waits_for_what_others_work_on(
    run_example: Run, secured_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQ_DEMO_RESULTS", str(tmp_path))
    reruns: list[int] = []

    def another_worker() -> None:
        """Claim some messages when they are published, and work on them after the tasks of the run have ended."""
        from flights import count_late

        with LeasedQueue(secured_url, "carrier-months") as queue:
            lease = queue.claim(max_messages=3, wait=600)
            assert lease is not None
            reruns.append(sum(message.priority > "" for message in lease.messages))
            while queue.stats().ready:
                time.sleep(0.1)
            time.sleep(3)
            for message in lease.messages:
                count_late(message.payload, tmp_path / "carriers")  # type: ignore[arg-type]  # it was published as a dict
            queue.ack(lease)

    worker = threading.Thread(target=another_worker)
    worker.start()
    finished = run_example("publication")
    worker.join()
    report, batches = xcom(finished, "report"), xcom(finished, "work")
    assert (report["acked"], report["dead"], report["departures"]) == (208, 0, 336_776)
    assert batches[0] + reruns[0] == sum(batches) + reruns[0] == 16, "reruns are claimed before all other months"
    assert stats(secured_url, "carrier-months") == (0, 0, 0, 0, 0)


def test_a_failed_check_tells_another_queue_once(secured_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    dag = load("alerts", EXAMPLES, "examples")
    assert states(dag.test()) == {"check": "success"}
    with LeasedQueue(secured_url, "airport-months-to-check", LeasedConfig(max_deliveries=1)) as strict:
        strict.publish("one")
        strict.nack(strict.claim(), reason="no use")
    for _ in range(2):
        assert states(dag.test()) == {"check": "failed"}
    with LeasedQueue(secured_url, "to-look-at") as told:
        (message,) = told.admin.peek(9)
    payload: Any = message.payload
    assert payload["queue"] == "airport-months-to-check"
    why = "dead_letters is 1, above 0 (error)" if CALLBACKS_GET_EXCEPTIONS else "the task was killed"
    assert payload["why"].endswith(why)
    assert "/dags/alerts/runs/" in payload["log"]
