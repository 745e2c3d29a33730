from __future__ import annotations

from typing import Any

import pytest
from redis import exceptions as redis_errors

from rmq_core.errors import QueueFull, ScriptFailed
from rmq_core.exchange import Call, Chain, Pipeline, Wait, blocks_for
from rmq_core.exchange.frames import Plan, answer, at_once, frame, plan, raise_retryable
from rmq_core.exchange.slots import Slots
from rmq_core.lua import Script

SCRIPT = Script("test", b"return 'whole'", b"f" * 40, has_slot=True)
CALL = Call(SCRIPT, (b"one", b"two"), ("a", 5))


@pytest.fixture
def slots() -> Slots:
    return Slots(b"p:", 30)


def test_a_call_begins_with_its_slot_its_number_and_its_time_to_live(slots: Slots) -> None:
    made = frame(CALL, slots)
    assert made.slot is not None
    assert made.args == ("EVALSHA", b"f" * 40, 3, made.slot.key, b"one", b"two", 1, 60_000, "a", 5)


def test_a_read_only_call_needs_no_slot(slots: Slots) -> None:
    made = frame(CALL._replace(script=SCRIPT._replace(has_slot=False)), slots)
    assert made.args == ("EVALSHA", b"f" * 40, 2, b"one", b"two", "a", 5)
    assert made.slot is None


def test_a_chained_call_ends_with_the_slot_and_number_of_its_predecessor(slots: Slots) -> None:
    first, second = plan(Chain((CALL, CALL)), slots).frames
    assert second.args[2] == 4
    assert first.slot is not None
    assert (second.args[6], second.args[-1]) == (first.slot.key, first.slot.seq)


def test_independent_calls_name_no_predecessor(slots: Slots) -> None:
    made = plan(Pipeline((CALL, CALL)), slots)
    assert [one.args[2] for one in made.frames] == [3, 3]


def test_frames_are_encoded_as_redis_commands(slots: Slots) -> None:
    packed = plan(CALL._replace(script=SCRIPT._replace(has_slot=False)), slots).packed()
    expected = [b"EVALSHA", b"f" * 40, b"2", b"one", b"two", b"a", b"5"]
    assert packed == b"*7\r\n" + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in expected)


def test_sending_a_script_in_full_replaces_only_the_hash(slots: Slots) -> None:
    made = plan(CALL._replace(confirm=("WAIT", 1, 5)), slots)
    words, whole = made.packed().split(b"\r\n"), made.packed(whole_scripts=True).split(b"\r\n")
    assert (words[2], whole[2], whole[4]) == (b"EVALSHA", b"EVAL", b"return 'whole'")
    assert whole[5:] == words[5:]


def test_a_wait_blocks_first_and_only_once(slots: Slots) -> None:
    made = plan(Wait(b"wake", 1234, CALL), slots)
    assert made.frames[0].args == ("BLPOP", b"wake", "1.234")
    assert (len(made.frames), made.block_ms) == (2, 1234)
    assert (made.again().frames, made.again().block_ms) == (made.frames[1:], 0)


def test_a_wait_may_move_the_arriving_entry_to_another_list(slots: Slots) -> None:
    made = plan(Wait(b"queue", 1234, CALL, into=b"mine"), slots)
    assert made.frames[0].args == ("BLMOVE", b"queue", b"mine", "RIGHT", "LEFT", "1.234")
    assert made.again().frames == made.frames[1:]


def test_a_blocking_command_has_a_form_that_does_not_block(slots: Slots) -> None:
    taking, moving = (plan(Wait(b"queue", 1, CALL, into=into), slots).frames[0] for into in (None, b"mine"))
    assert at_once(taking).args == ("LPOP", b"queue")
    assert at_once(moving).args == ("LMOVE", b"queue", b"mine", "RIGHT", "LEFT")


def test_a_plan_that_does_not_block_is_resent_unchanged(slots: Slots) -> None:
    made = plan(CALL, slots)
    assert made.again() is made


def test_released_slots_are_used_again(slots: Slots) -> None:
    made = plan(Chain((CALL, CALL)), slots)
    made.release(slots)
    assert {slots.take().key, slots.take().key} == {one.slot.key for one in made.frames if one.slot}


def test_the_answer_of_a_call_is_its_reply() -> None:
    planned = Plan([frame(CALL, Slots(b"", 1))])
    assert answer(CALL, planned, [b"ok"]) == b"ok"
    with pytest.raises(redis_errors.ResponseError):
        answer(CALL, planned, [redis_errors.ResponseError("x")])


def test_the_answer_of_a_wait_is_that_of_its_call(slots: Slots) -> None:
    want = Wait(b"wake", 1, CALL)
    assert answer(want, plan(want, slots), [None, b"ok"]) == b"ok"


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


@pytest.mark.parametrize(
    "reply",
    [b"-LOADING", None, 5, [], redis_errors.ResponseError("WRONGTYPE x"), redis_errors.AuthenticationError("x")],
)
def test_any_other_reply_is_returned_unchanged(reply: Any) -> None:
    raise_retryable([reply])


@pytest.mark.parametrize(("block_ms", "timeout"), [(0, "0.002"), (1, "0.002"), (2, "0.002"), (5000, "5.000")])
def test_a_very_short_wait_is_not_rounded_to_zero_which_redis_treats_as_endless(block_ms: int, timeout: str) -> None:
    assert blocks_for(block_ms) == timeout
