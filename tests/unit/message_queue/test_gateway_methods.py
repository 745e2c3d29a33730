"""The methods of a gateway as exchanges with the engine's scripts: their requests, given the replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fakeredis
import pytest

from rmq_core.compat import gateway_methods, operations
from rmq_core.compat.errors import LuaScriptError
from rmq_core.compat.gateway_methods import Channels
from rmq_core.compat.sync import RedisGateway
from rmq_core.errors import ConfigurationError, QueueBackpressureError, QueueFull, ScriptFailed, WrongKeyType
from rmq_core.exchange import Exchange, Interrupted, Patience, Pipeline
from tests.unit.leased.by_hand import claimed, drive, engine, envelope, held, result
from tests.unit.message_queue.by_hand import run


class ByHand:
    """A driver that receives the replies of a test."""

    def __init__(self, *replies: object) -> None:
        self.replies = replies
        self.wants: list[Any] = []

    def run(self, exchange: Exchange[Any], patience: Patience) -> Any:
        """Answer an operation; a flush of the history, which is sent once, is left unanswered."""
        if patience.once:
            exchange.close()
            return None
        found, self.wants = drive(exchange, self.replies)
        return found


def channels(*replies: object, **settings: Any) -> Channels:
    """The engines of a gateway; that of the queue `q` gets these replies."""
    made = RedisGateway(redis_client=fakeredis.FakeRedis()).channels
    channel, _ = made.find("q::pending")
    channel.driver, channel.engine = ByHand(*replies), engine(**settings)
    return made


def answer(verb: Any, *args: Any, replies: Sequence[object] = (), **settings: Any) -> Any:
    """Return what a method returns after these replies."""
    return run(verb(channels(*replies, **settings), *args))


EMPTY = [b"empty 0 9", [], []]


def delivered(times: int) -> list[object]:
    """Return a claim whose message was delivered so often before."""
    return [claimed()[0], [], [[envelope("p", "m", times)]]]


def test_a_full_server_is_no_backpressure() -> None:
    full = QueueFull("maxmemory")
    full.__cause__ = OSError("OOM")
    with pytest.raises(LuaScriptError, match="OOM"):
        answer(gateway_methods.add_message, "q::pending", "x", replies=[full])


def test_a_wait_for_room_can_be_interrupted() -> None:
    with pytest.raises(QueueBackpressureError, match="given up"):
        answer(gateway_methods.add_message, "q::pending", "x", replies=[Interrupted()], max_ready=2)


def test_an_interrupted_claim_is_none_and_its_id_is_kept() -> None:
    own = engine()
    assert result(operations.claim(own, 5), Interrupted()) is None
    assert len(own.unanswered) == 1


def test_messages_that_become_dead_letters_are_reclaimed_first_in_the_order_of_their_deadlines() -> None:
    late = [claimed()[0], [b"a"], claimed()[2]]
    head = b"7.abc h 1 0 0 me"
    pages = [[head, envelope("p", "m", 0)], [head, envelope("p", "m", 1)], [head, envelope("p", "m", 1)]]
    replies = [
        late, b"returned 1 0", [b"a", b"b", b"c"], pages[::-1],
        [b"returned 1 0 8.x b", b"returned 1 0 9.x c"], [b"returned 1 0 9.x"], EMPTY,
    ]  # fmt: skip
    lease, wants = drive(operations.claim(engine(max_deliveries=2), 0), replies)
    assert lease is None
    batches = [want for want in wants if isinstance(want, Pipeline)]
    assert [[call.given["lease_id"] for call in batch.calls] for batch in batches[1:]] == [["b", "c"], ["a"]]


def test_an_unknown_answer_is_an_error() -> None:
    with pytest.raises(ScriptFailed, match="what"):
        result(operations.finish(engine(), held()), b"what")


@pytest.mark.parametrize(("verb", "args"), [(gateway_methods.trim_queue, [10]), (gateway_methods.purge_queue, [])])
def test_the_processing_part_can_be_neither_trimmed_nor_purged(verb: Any, args: list[int]) -> None:
    with pytest.raises(ConfigurationError, match="process"):
        answer(verb, "q::processing", *args)


def test_recovering_returns_whether_anything_is_left() -> None:
    assert answer(gateway_methods.recover_claims, "q::processing") is True
    for reply, recovered, left in ((Interrupted(), False, {"~a": "n"}), (b"lost", True, {})):
        own = channels(reply)
        engine_of_q = own.find("q::pending")[0].engine
        engine_of_q.unanswered["~a"] = "n"
        assert run(gateway_methods.recover_claims(own, "q::processing")) is recovered
        assert engine_of_q.unanswered == left


def test_an_error_inside_a_claim_reaches_the_engine_and_the_caller() -> None:
    with pytest.raises(WrongKeyType):
        result(operations.claim(engine(), 0), WrongKeyType("x"))
