"""The whole path through Airflow: publish, wait in a trigger, work, be killed, be retried, ack; no secret is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rmq_core import Lease, LeasedQueue
from tests.airflow.conftest import CANARY, HOME
from tests.airflow.home import stored
from tests.airflow.runs import load, states, xcom

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("spark_submit")]


PAYLOAD = "payload-5e0c"


class Ran(NamedTuple):
    run: Any
    tokens: list[str]
    output: str


@pytest.fixture
def ran(
    connection: str,
    queue: Any,
    airflow_database: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Ran:
    monkeypatch.setenv("RMQ_TESTS_MARKER", str(tmp_path / "marker"))
    monkeypatch.setenv("RMQ_TESTS_PAYLOAD", PAYLOAD)
    tokens: list[str] = []
    claim = LeasedQueue.claim

    def claim_and_note(self: LeasedQueue, **options: Any) -> Lease | None:
        lease = claim(self, **options)
        tokens.append(str(lease and lease.token))
        return lease

    monkeypatch.setattr(LeasedQueue, "claim", claim_and_note)
    run = load("working").test()
    return Ran(run, tokens, "".join(capfd.readouterr()))


def test_a_killed_driver_is_retried_on_the_same_messages_and_nothing_secret_is_left(ran: Ran, queue: Any) -> None:
    assert states(ran.run) == {"publish": "success", "wait": "success", "work": "success"}
    assert {ti.task_id: ti.try_number for ti in ran.run.get_task_instances()}["work"] == 2
    assert xcom(ran.run, "publish") == {"queue": "work", "accepted": 20, "duplicates": 0, "dropped": 0}
    report = xcom(ran.run, "work")
    assert (report["outcome"], report["claimed"], report["acked"]) == ("acked", 20, 20)
    record = queue.settled(f"working/{ran.run.run_id}/work/-1")
    assert record.owner.partition("@")[0] == f"airflow:working/{ran.run.run_id}/work/-1/2"
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)
    check_for_secrets(ran)


def check_for_secrets(ran: Ran) -> None:
    """No credential, token or payload is in the database (XCom, rendered fields, triggers) or in a log."""
    kept = stored(HOME.rglob("*"))
    assert b"working" in kept, "this is where Airflow keeps what it stores"
    assert "Claimed 20 messages" in ran.output, "and this is where the task's log is"
    assert len(ran.tokens) == 2
    for secret in (CANARY, PAYLOAD, *ran.tokens):
        assert secret.encode() not in kept
        assert secret not in ran.output
