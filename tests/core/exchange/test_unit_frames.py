from __future__ import annotations

from typing import Any

import pytest
from redis import exceptions as redis_errors

from rmq_core.errors import QueueFull, ScriptFailed
from rmq_core.exchange import Call, Chain, Wait, blocks_for
from rmq_core.exchange.frames import answer, at_once, plan, raise_retryable
from rmq_core.exchange.loading import Script
from rmq_core.exchange.scripts import Slots

SCRIPT = Script("test", b"return 'whole'", b"f" * 40, has_slot=True)
CALL = Call(SCRIPT, (b"one", b"two"), ("a", 5))


@pytest.fixture
def slots() -> Slots:
    return Slots(b"p:", 30)


def test_a_chained_call_ends_with_the_slot_and_number_of_its_predecessor(slots: Slots) -> None:
    first, second = plan(Chain((CALL, CALL)), slots).frames
    assert second.args[2] == 4
    assert first.slot is not None
    assert (second.args[6], second.args[-1]) == (first.slot.key, first.slot.seq)


def test_a_wait_may_move_the_arriving_entry_to_another_list(slots: Slots) -> None:
    made = plan(Wait(b"queue", 1234, CALL, into=b"mine"), slots)
    assert made.frames[0].args == ("BLMOVE", b"queue", b"mine", "RIGHT", "LEFT", "1.234")
    assert made.again().frames == made.frames[1:]


def test_a_blocking_command_has_a_form_that_does_not_block(slots: Slots) -> None:
    taking, moving = (plan(Wait(b"queue", 1, CALL, into=into), slots).frames[0] for into in (None, b"mine"))
    assert at_once(taking).args == ("LPOP", b"queue")
    assert at_once(moving).args == ("LMOVE", b"queue", b"mine", "RIGHT", "LEFT")


def test_the_answer_of_a_wait_that_moves_contains_what_it_moved(slots: Slots) -> None:
    want = Wait(b"queue", 1, CALL, into=b"mine")
    planned = plan(want, slots)
    assert answer(want, planned, [b"entry", b"ok"]) == (b"entry", b"ok")
    assert answer(want, planned, [b"ok"]) == (None, b"ok")
    moved, reply = answer(want, planned, [redis_errors.OutOfMemoryError("OOM"), b"ok"])
    assert (type(moved), reply) == (QueueFull, b"ok")
    with pytest.raises(redis_errors.ResponseError):
        answer(want, planned, [None, redis_errors.ResponseError("x")])


def test_a_confirmation_that_fails_does_not_hide_the_reply(slots: Slots) -> None:
    want = CALL._replace(confirm=("WAITAOF", 1, 0, 5))
    unknown = redis_errors.ResponseError("ERR unknown command 'WAITAOF'")
    assert answer(want, plan(want, slots), [b"accepted 0", unknown]) == (b"accepted 0", unknown)


def test_the_answer_of_many_calls_holds_their_errors(slots: Slots) -> None:
    want = Chain((CALL, CALL))
    found = answer(want, plan(want, slots), [b"ok", redis_errors.ResponseError("ERR x")])
    assert found[0] == b"ok"
    assert isinstance(found[1], ScriptFailed)


@pytest.mark.parametrize(
    "reply",
    [
        redis_errors.ReadOnlyError("x"), redis_errors.MovedError("1 h:1"), redis_errors.AskError("1 h:1"),
        redis_errors.TryAgainError("x"), redis_errors.ClusterDownError("x"), redis_errors.MasterDownError("x"),
        redis_errors.ResponseError("LOADING x"), redis_errors.ResponseError("UNBLOCKED x"),
        redis_errors.ResponseError("ERR Error running script (call to f): @user_script: -READONLY You can't write"),
    ],
)  # fmt: skip
def test_a_call_is_resent_when_the_server_cannot_answer_now(reply: Any) -> None:
    with pytest.raises(redis_errors.RedisError):
        raise_retryable([b"ok", reply])


@pytest.mark.parametrize(("block_ms", "timeout"), [(0, "0.002"), (1, "0.002"), (2, "0.002"), (5000, "5.000")])
def test_a_very_short_wait_is_not_rounded_to_zero_which_redis_treats_as_endless(block_ms: int, timeout: str) -> None:
    assert blocks_for(block_ms) == timeout
