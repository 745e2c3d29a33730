"""The counts of the fault rounds would show a loss, a duplicate and a stale settle."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.faults.airflow.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Two messages, each processed and acked once under the fencing number 1."""
    made = Ledger("queue", tmp_path)
    for message_id in ("a", "b"):
        made.have_effect(1, message_id, f"payload of {message_id}")
        made.write("acked", 1, [message_id])
    return made


def counts(ledger: Ledger) -> tuple[int, int, int]:
    return ledger.twice(), ledger.doubled(), ledger.stale()


def test_work_done_once_counts_as_no_fault(ledger: Ledger) -> None:
    assert counts(ledger) == (0, 0, 0)
    assert ledger.effects() == {"a": "payload of a", "b": "payload of b"}


def test_a_second_delivery_is_counted_and_overwrites_the_same_effect(ledger: Ledger) -> None:
    ledger.have_effect(1, "c", "payload of c")
    ledger.have_effect(2, "c", "payload of c")
    ledger.write("acked", 2, ["c"])
    assert counts(ledger) == (1, 0, 0)


def test_an_ack_by_an_overtaken_holder_is_stale(ledger: Ledger) -> None:
    ledger.have_effect(1, "c", "payload of c")
    ledger.have_effect(2, "c", "payload of c")
    ledger.write("acked", 1, ["c"])
    assert ledger.stale() == 1


def test_an_ack_that_was_refused_is_not_stale(ledger: Ledger) -> None:
    ledger.have_effect(1, "c", "payload of c")
    ledger.have_effect(2, "c", "payload of c")
    ledger.write("stale", 1, ["c"])
    ledger.write("acked", 2, ["c"])
    assert ledger.stale() == 0


def test_a_second_ack_of_a_message_is_stale(ledger: Ledger) -> None:
    ledger.write("acked", 1, ["a"])
    assert ledger.stale() == 1


def test_a_payload_that_comes_under_two_ids_is_a_doubled_effect(ledger: Ledger) -> None:
    ledger.have_effect(3, "c", "payload of a")
    assert ledger.doubled() == 1


def test_work_begins_with_the_first_delivery(ledger: Ledger) -> None:
    before = time.time()
    ledger.have_effect(1, "c", "payload of c")
    first = ledger.began()["c"]
    time.sleep(0.01)
    ledger.have_effect(2, "c", "payload of c")
    assert ledger.began()["c"] == first
    assert first == pytest.approx(before, abs=60)


def test_work_waits_at_the_gate_until_it_is_opened(ledger: Ledger) -> None:
    ledger.open_gate()
    ledger.work(4, "d", "7")
    assert ledger.stands()
    assert ledger.effects()["d"] == "7"
