"""The operations of a rotation queue, driven by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rmq_core import QueueFull
from rmq_core.discipline.rotation.config import RotationConfig
from rmq_core.discipline.rotation.engine import RotationEngine
from rmq_core.discipline.rotation.entries import envelope
from rmq_core.discipline.rotation.keys import RotationKeys
from rmq_core.discipline.rotation.operations import inspecting, popping, pushing, settling
from rmq_core.errors import ScriptFailed
from rmq_core.exchange import Exchange, Wait
from rmq_core.messages import Lease
from tests.unit.leased.by_hand import asked, drive, result

KEYS = RotationKeys("q")
NOTHING = b"1417696237 0 0 5000  "


@pytest.fixture
def engine() -> RotationEngine:
    return RotationEngine(KEYS, RotationConfig(timeout=30), registered=True)


def held() -> Lease:
    return Lease(
        "q", "~1", "", 2, 5000, "1417696237", envelopes=[envelope(b"a", late=False), envelope(b"b|0", late=True)]
    )


def test_a_pop_without_a_wait_takes_one_call(engine: RotationEngine) -> None:
    (call,) = asked(popping.safe_pop(engine), NOTHING)
    asks = {"timeout_s": 30, "max_messages": 1, "most": 0, "waiter": "", "wait_ms": 0, "wait_end": 0, "bell": KEYS.bell}
    assert asks.items() <= call.given.items()


def test_ids_are_read_by_their_length(engine: RotationEngine) -> None:
    lease = result(popping.claim(engine, max_messages=3), b"1417696237 0 0 5000 nln 3:a b1:23:4:5")
    assert lease is not None
    assert [message.payload for message in lease.messages] == ["a b", "2", "4:5"]
    assert [message.deliveries for message in lease.messages] == [1, 2, 1]
    assert (lease.token, lease.deadline_ms) == ("1417696237", 1417696268000)


def test_a_long_list_is_rotated_in_parts_and_at_most_once(engine: RotationEngine) -> None:
    found, wants = drive(popping.safe_pop(engine), [b"1417696237 700 0 5000  ", NOTHING])
    assert found is None
    assert [want.given["most"] for want in wants] == [0, 700]


def test_a_waiting_pop_blocks_on_the_wake_list_for_its_time(engine: RotationEngine) -> None:
    found, wants = drive(popping.safe_pop(engine, wait=9), [b"1417696237 0 4000 9000  ", b"1417696237 0 0 9000 n 1:a"])
    assert found == "a"
    assert isinstance(wants[1], Wait)
    assert (wants[1].wake, wants[1].block_ms, wants[1].into) == (KEYS.wake, 4000, None)
    first, second = wants[0].given, wants[1].call.given
    assert (second["waiter"], second["wait_end"]) == (first["waiter"], 9000)
    assert first["waiter"].startswith("w")


def test_a_full_server_does_not_keep_consumers_from_popping(engine: RotationEngine) -> None:
    engine.registered = False
    assert result(popping.safe_pop(engine), QueueFull("full"), NOTHING) is None
    assert not engine.registered


def test_releasing_ids_sends_their_old_and_their_new_entries(engine: RotationEngine) -> None:
    (call,) = asked(settling.release(engine, held()), b"returned ss")
    assert call.given["scope"] == "whole"
    assert call.given["entries"] == (b"a|1417696237", b"a", b"b|0|1417696237", b"b|0|0")


def test_settling_no_messages_sends_nothing(engine: RotationEngine) -> None:
    assert asked(settling.ack(engine, held(), [])) == []
    assert asked(settling.nack(engine, held(), [])) == []


def test_purging_rotates_the_list_once(engine: RotationEngine) -> None:
    removed, wants = drive(inspecting.purge(engine, "ready"), [b"removed 3 500", b"removed 1 0"])
    assert (removed, [want.given["most"] for want in wants]) == (4, [0, 500])


ODD: dict[str, Callable[[RotationEngine], Exchange[Any]]] = {
    "push": lambda engine: pushing.push(engine, "a"),
    "pop": popping.safe_pop,
    "mark": lambda engine: settling.mark_done(engine, "a"),
    "release": lambda engine: settling.release(engine, held()),
    "purge": lambda engine: inspecting.purge(engine, "ready"),
}


@pytest.mark.parametrize("name", list(ODD))
def test_an_unknown_reply_is_not_treated_as_a_success(engine: RotationEngine, name: str) -> None:
    with pytest.raises(ScriptFailed, match="superseded"):
        result(ODD[name](engine), b"superseded")
