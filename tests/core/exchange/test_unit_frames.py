from __future__ import annotations

from typing import Any

import hiredis
import pytest
from redis import exceptions as redis_errors

from rmq_core.errors import QueueFull, ScriptFailed
from rmq_core.exchange import Appended, Call, Chain, Packed, Wait, blocks_for
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
    want = CALL._replace(then=("WAITAOF", 1, 0, 5))
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


@pytest.mark.parametrize("messages", [(b"x", b"", b"\r\n$1"), Packed(3, b"$1\r\nx\r\n$0\r\n\r\n$4\r\n\r\n$1\r\n")])
def test_messages_are_appended_in_one_transaction_with_their_script(slots: Slots, messages: Any) -> None:
    planned = plan(CALL._replace(appended=Appended(b"list", messages)), slots)
    assert list(messages) == [b"x", b"", b"\r\n$1"]
    reader = hiredis.Reader()
    reader.feed(planned.packed())
    multi, push, script, execute, get = (reader.gets() for _ in range(planned.expected))
    assert (multi, push, execute) == ([b"MULTI"], [b"RPUSH", b"list", b"x", b"", b"\r\n$1"], [b"EXEC"])
    assert script[:2] == [b"EVAL", SCRIPT.source]
    assert get == [b"GET", script[3]]


FULL, ABORTED = redis_errors.OutOfMemoryError("OOM x"), redis_errors.ExecAbortError("EXECABORT x")


@pytest.mark.parametrize(
    ("replies", "outcome"),
    [
        ([b"OK", b"QUEUED", b"QUEUED", [3, b"fresh"], b"1 fresh"], b"fresh"),
        ([b"OK", FULL, FULL, ABORTED, b"1 stored before"], b"stored before"),
        ([b"OK", FULL, FULL, ABORTED, b"0 older"], FULL),
        ([b"OK", FULL, FULL, ABORTED, None], FULL),
    ],
)
def test_a_refused_resend_of_a_transaction_gets_the_reply_to_the_first_request(
    slots: Slots, replies: list[Any], outcome: Any
) -> None:
    planned = plan(CALL._replace(appended=Appended(b"list", [b"x"])), slots)
    assert planned.outcomes(replies) == [outcome]


def test_a_transaction_is_resent_when_its_server_became_a_replica(slots: Slots) -> None:
    aborted = redis_errors.ExecAbortError("EXECABORT Transaction discarded because of: READONLY You can't write")
    with pytest.raises(redis_errors.ConnectionError):
        raise_retryable([b"OK", b"QUEUED", b"QUEUED", aborted, None])
