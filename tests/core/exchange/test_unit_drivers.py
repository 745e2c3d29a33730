"""The drivers `sync` and `aio` must behave the same, so most tests run on both."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from redis import exceptions as redis_errors

from rmq_core.errors import ConfigurationError, FormatMismatch, QueueUnavailable, WrongKeyType
from rmq_core.exchange import Call, Chain, Command, Exchange, Pipeline, Wait
from rmq_core.exchange.aio import AsyncDriver
from rmq_core.exchange.loading import Script
from rmq_core.exchange.public import AsyncPublicDriver
from rmq_core.exchange.sync import SyncDriver
from tests.core.exchange.wire import SILENCE, AsyncClient, Client, Rig, Wire

SCRIPT = Script("test", b"return 1", b"f" * 40, has_slot=True)
CALL = Call(SCRIPT, (b"key",), ("arg",))
CUT = redis_errors.ConnectionError("cut")
PATIENCE_S = 300


class Interruption(BaseException):
    pass


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    made = Rig(asynchronous=request.param)
    yield made
    made.end()


def call() -> Generator[Any, Any, Any]:
    """The shortest operation."""
    return (yield CALL)


def slot_and_number(sent: bytes) -> tuple[bytes, bytes]:
    """Return the call slot and the number of the call in a packed script call."""
    words = sent.split(b"\r\n")[2::2]
    keys = int(words[2])
    return words[3], words[3 + keys]


def test_calls_share_one_connection_until_the_driver_is_closed(rig: Rig) -> None:
    for _ in range(3):
        assert rig.ask(CALL, b"ok") == b"ok"
    assert (rig.wire.opened, rig.wire.released) == (1, 0)
    rig.close()
    assert rig.wire.released == 1
    rig.ask(CALL, b"ok")
    assert rig.wire.opened == 2


@pytest.mark.parametrize("reply", [b"ok", Interruption()])
def test_a_small_pool_gets_its_connection_back_whenever_a_call_ends(reply: Any) -> None:
    wire = Wire()
    wire.replies = [reply]
    with contextlib.suppress(Interruption):
        SyncDriver(Client(wire, max_connections=19), b"rmq:{q}:", 0).run(call())
    assert (wire.opened, wire.released) == (1, 1)


class SlowToRelease(AsyncClient):
    """A client whose pool is busy when a connection comes back."""

    async def release(self, connection: Any) -> None:
        await asyncio.sleep(0.01)
        await super().release(connection)


async def test_a_task_that_is_cancelled_twice_returns_its_connection_all_the_same() -> None:
    wire = Wire()
    wire.replies = [SILENCE]
    driver = AsyncDriver(SlowToRelease(wire, max_connections=19), b"rmq:{q}:", 0)
    waiting = asyncio.create_task(driver.run(call()))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0.1)
    assert (wire.opened, wire.released) == (1, 1)


class SlowToConnect(AsyncClient):
    """A client whose connections swallow a cancellation in their last step, as asyncio.wait_for of Python 3.11 does."""

    async def get_connection(self) -> Any:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(PATIENCE_S)
        return await super().get_connection()


async def test_a_cancellation_swallowed_while_connecting_still_ends_the_call() -> None:
    wire = Wire()
    driver = AsyncDriver(SlowToConnect(wire), b"rmq:{q}:", 0)
    waiting = asyncio.create_task(driver.run(call()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (wire.sent, wire.opened, wire.released) == ([], 1, 1)


class SlowToAnswer(AsyncClient):
    """A client whose commands swallow a cancellation likewise."""

    async def execute_command(self, *args: Any) -> Any:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(PATIENCE_S)
        return await super().execute_command(*args)


@pytest.mark.parametrize(("driver", "want"), [(AsyncDriver, Command(("PING",))), (AsyncPublicDriver, CALL)])
async def test_a_cancellation_swallowed_by_a_command_still_ends_the_call(driver: Any, want: Any) -> None:
    wire = Wire()
    wire.replies = [b"ok", b"ok"]

    def asked() -> Exchange[Any]:
        return (yield want)

    waiting = asyncio.create_task(driver(SlowToAnswer(wire), b"rmq:{q}:", 0).run(asked()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_a_connection_is_not_used_in_another_event_loop_than_its_own() -> None:
    wire = Wire()
    wire.replies = [b"1", b"2", b"3"]
    driver = AsyncDriver(AsyncClient(wire), b"rmq:{q}:", 0)

    async def twice() -> None:
        await driver.run(call())
        await driver.run(call())

    asyncio.run(twice())
    assert wire.opened == 1
    asyncio.run(driver.run(call()))
    assert wire.opened == 2


def test_a_call_whose_reply_was_lost_is_resent_unchanged(rig: Rig) -> None:
    assert rig.ask(CALL, CUT, b"ok") == b"ok"
    first, second = rig.wire.sent
    assert first == second
    assert rig.wire.closed >= 1


def test_each_new_call_has_a_higher_number_in_the_same_slot(rig: Rig) -> None:
    for _ in range(3):
        rig.ask(CALL, b"ok")
    slots = [slot_and_number(sent) for sent in rig.wire.sent]
    assert len({slot for slot, _ in slots}) == 1
    assert [int(number) for _, number in slots] == [1, 2, 3]


def test_an_unreachable_server_is_unavailable_once_the_retry_budget_is_spent(rig: Rig) -> None:
    with pytest.raises(QueueUnavailable, match="cut") as unavailable:
        rig.ask(CALL, CUT, CUT)
    assert unavailable.value.__cause__ is CUT


@pytest.mark.parametrize(
    "transient",
    [
        redis_errors.ResponseError("LOADING Redis is loading"), redis_errors.ReadOnlyError("replica"),
        redis_errors.ResponseError("UNBLOCKED force"), redis_errors.TryAgainError("x"), redis_errors.TimeoutError("x"),
        redis_errors.ClusterDownError("x"), redis_errors.MasterDownError("x"), ConnectionResetError("x"),
    ],
)  # fmt: skip
def test_a_transient_error_is_retried(rig: Rig, transient: Exception) -> None:
    assert rig.ask(CALL, transient, b"ok") == b"ok"
    assert len(rig.wire.sent) == 2


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (redis_errors.ResponseError("WRONGTYPE Operation"), WrongKeyType),
        (redis_errors.AuthenticationError("WRONGPASS"), ConfigurationError),
    ],
)
def test_a_permanent_error_is_raised_at_once_as_an_error_of_rmq(rig: Rig, reply: Any, error: type[Exception]) -> None:
    no_format_key = None
    with pytest.raises(error):
        rig.ask(CALL, reply, no_format_key)
    assert len(rig.wire.sent) == 1


def test_a_key_of_another_type_raises_format_mismatch_when_the_queue_has_another_format(rig: Rig) -> None:
    with pytest.raises(FormatMismatch, match="format 9") as raised:
        rig.ask(CALL, redis_errors.ResponseError("WRONGTYPE x"), b"9 0.9.0")
    assert rig.wire.commands == [("GET", b"rmq:{q}:format")]
    assert pickle.loads(pickle.dumps(raised.value)).needs == "0.9.0"


def test_a_script_the_server_does_not_know_is_sent_whole_in_the_same_slot(rig: Rig) -> None:
    assert rig.ask(CALL, redis_errors.NoScriptError("NOSCRIPT"), b"ok") == b"ok"
    by_hash, whole = rig.wire.sent
    assert b"EVALSHA" in by_hash
    assert SCRIPT.source in whole
    assert slot_and_number(by_hash) == slot_and_number(whole)


def test_a_wait_and_its_claim_are_sent_in_one_write(rig: Rig) -> None:
    assert rig.ask(Wait(b"wake", 2500, CALL), [b"wake", b"1"], b"ok") == b"ok"
    (sent,) = rig.wire.sent
    assert sent.startswith(b"*3\r\n$5\r\nBLPOP\r\n$4\r\nwake\r\n$5\r\n2.500\r\n")
    assert b"EVALSHA" in sent


def test_a_completed_wait_is_not_repeated_in_a_resend(rig: Rig) -> None:
    assert rig.ask(Wait(b"wake", 2500, CALL), CUT, b"ok") == b"ok"
    assert [b"BLPOP" in sent for sent in rig.wire.sent] == [True, False]
    assert rig.ask(Wait(b"wake", 2500, CALL), None, redis_errors.NoScriptError("NOSCRIPT"), b"ok") == b"ok"
    assert [b"BLPOP" in sent for sent in rig.wire.sent[2:]] == [True, False]


def test_the_calls_of_a_chain_are_sent_in_one_write_each_naming_its_predecessor(rig: Rig) -> None:
    replies = [b"accepted 0", redis_errors.ResponseError("WRONGTYPE x"), b"unchained"]
    first, second, third = rig.ask(Chain((CALL, CALL, CALL)), *replies)
    assert (first, type(second), third) == (b"accepted 0", WrongKeyType, b"unchained")
    (sent,) = rig.wire.sent
    calls = [b"*" + part for part in sent.split(b"*")[1:]]
    slots = [slot_and_number(call) for call in calls]
    assert len(set(slots)) == 3
    for (slot, number), call in zip(slots, calls[1:], strict=False):
        words = call.split(b"\r\n")[2::2]
        assert words[-1] == number
        assert slot in words


def test_the_calls_of_a_batch_are_independent(rig: Rig) -> None:
    plain = CALL._replace(script=SCRIPT._replace(has_slot=False))
    replies = rig.ask(Pipeline((plain, plain)), b"one", redis_errors.ResponseError("ERR no"))
    assert (replies[0], str(replies[1])) == (b"one", "ERR no")
    assert b"slot" not in rig.wire.sent[0]


def test_a_durability_confirmation_is_sent_with_its_call(rig: Rig) -> None:
    call = CALL._replace(then=("WAIT", 1, 100))
    assert rig.ask(call, b"accepted 0", 1) == (b"accepted 0", 1)
    assert rig.wire.sent[0].endswith(b"*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$3\r\n100\r\n")
    with pytest.raises(WrongKeyType):
        rig.ask(call, redis_errors.ResponseError("WRONGTYPE x"), 0, None)


def test_plain_commands_go_through_the_client_and_are_tried_again(rig: Rig) -> None:
    assert rig.ask(Command(("GET", b"key")), CUT, b"value") == b"value"
    assert rig.wire.commands == [("GET", b"key")] * 2


def test_an_interruption_reaches_the_operation_and_closes_the_connection(rig: Rig) -> None:
    noted: list[str] = []

    def operation() -> Generator[Any, Any, Any]:
        try:
            yield CALL
        except Interruption:
            noted.append("interrupted")
            raise

    rig.wire.replies = [Interruption()]
    with pytest.raises(Interruption):
        rig.run(operation())
    assert (noted, rig.wire.closed) == (["interrupted"], 1)
    rig.ask(CALL, b"ok")
    assert [int(slot_and_number(sent)[1]) for sent in rig.wire.sent] == [1, 2]
