from __future__ import annotations

import pytest

from rmq_core.errors import ScriptFailed
from rmq_core.exchange import Command
from rmq_core.kernel.keys import queues_of
from rmq_core.kernel.registry import NEW, named_in, register
from rmq_core.protocol import DEFAULT, DISCIPLINES
from tests.core.by_hand import drive


def test_a_queue_is_registered_with_its_discipline() -> None:
    told, wants = drive(register("żółw", "streams"), [1, 0])
    assert told == NEW
    assert wants == [
        Command(("SADD", b"rmq:queues", "żółw"), aside=True),
        Command(("SADD", b"rmq:queues:streams", "żółw"), aside=True),
    ]
    assert queues_of("streams") == b"rmq:queues:streams"


def test_a_name_that_another_node_did_not_take_is_registered_by_the_next_call() -> None:
    assert drive(register("q", "streams"), [None])[0] is False
    assert drive(register("q", "streams"), [1, None])[0] is False


def test_a_name_that_can_be_registered_with_half_of_the_sets_is_registered_with_none() -> None:
    with pytest.raises(ScriptFailed):
        drive(register("q", "streams"), [1, ScriptFailed("NOPERM"), 1, 0])


def test_a_name_of_another_program_that_is_not_utf8_hides_no_queue() -> None:
    own = [{b"mail"} if discipline == "streams" else set() for discipline in DISCIPLINES]
    found = named_in([*own, {b"orders", b"\xffq", b"mail"}])
    assert sorted(found) == [("mail", "streams"), ("orders", DEFAULT), ("\ufffdq", DEFAULT)]


def test_a_name_used_by_two_disciplines_is_listed_with_each() -> None:
    own = [{b"q"} if discipline in {"streams", "jobs"} else set() for discipline in DISCIPLINES]
    assert sorted(named_in([*own, {b"q"}])) == [("q", "jobs"), ("q", "streams")]
