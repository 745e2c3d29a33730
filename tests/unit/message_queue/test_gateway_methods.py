"""The methods of a gateway as exchanges with the engine's scripts: their requests, given the replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fakeredis
import pytest

from rmq_core.compat import gateway_methods, operations
from rmq_core.compat.errors import LuaScriptError
from rmq_core.compat.gateway_methods import Channels
from rmq_core.compat.keys import QueuePart
from rmq_core.compat.sync import RedisGateway
from rmq_core.discipline.leased.operations import settling
from rmq_core.errors import ConfigurationError, QueueBackpressureError, QueueFull, ScriptFailed, WrongKeyType
from rmq_core.exchange import Batch, Command, Exchange, Interrupted, Patience
from tests.unit.leased.by_hand import asked, claimed, drive, engine, envelope, held, result, scripts
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


def test_publishing_returns_whether_the_message_is_new() -> None:
    for reply, fresh in ((b"accepted 0 1", True), (b"accepted 0 0", False)):
        assert answer(gateway_methods.publish_message, "q::pending", "x", "key", replies=[reply]) is fresh


def test_a_full_queue_raises_the_backpressure_error_of_the_message_queue() -> None:
    with pytest.raises(QueueBackpressureError, match="max_pending_length=2 messages wait; consume some"):
        answer(gateway_methods.add_message, "q::pending", "x", replies=[b"full 1000"], max_ready=2)


def test_a_full_server_is_no_backpressure() -> None:
    full = QueueFull("maxmemory")
    full.__cause__ = OSError("OOM")
    with pytest.raises(LuaScriptError, match="OOM"):
        answer(gateway_methods.add_message, "q::pending", "x", replies=[full])


def test_a_wait_for_room_can_be_interrupted() -> None:
    with pytest.raises(QueueBackpressureError, match="given up"):
        answer(gateway_methods.add_message, "q::pending", "x", replies=[Interrupted()], max_ready=2)


def test_a_claim_is_one_message() -> None:
    grant = result(operations.claim(engine(), 0), claimed())
    assert grant is not None
    message = grant.lease.message
    assert grant[1:] == (message.id, message.raw, message.deliveries) == ("m0", b"p0", 1)


def test_an_interrupted_claim_is_none_and_its_id_is_kept() -> None:
    own = engine()
    assert result(operations.claim(own, 5), Interrupted()) is None
    assert len(own.unanswered) == 1


def test_expired_messages_precede_the_message_just_claimed_earliest_first() -> None:
    late = [claimed()[0], [b"a", b"b"], claimed()[2]]
    replies = [late, b"returned 1 0", [b"a", b"b"], [b"returned 1 0 8.x", b"returned 1 0 9.x"], claimed()]
    lease, wants = drive(operations.claim(engine(max_deliveries=None), 0), replies)
    assert lease is not None
    assert scripts(wants)[:3] == ["claim", "give_back", "message_queue/expired"]
    assert wants[1].given["verb"] == "release"
    (batch,) = [want for want in wants if isinstance(want, Batch)]
    assert [call.given["lease_id"] for call in batch.calls] == ["b", "a"]


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
    batches = [want for want in wants if isinstance(want, Batch)]
    assert [[call.given["lease_id"] for call in batch.calls] for batch in batches[1:]] == [["b", "c"], ["a"]]


def test_a_message_beyond_a_lowered_delivery_limit_is_not_delivered() -> None:
    wants = asked(operations.claim(engine(max_deliveries=3), 0), delivered(3), b"returned 1 0 m", EMPTY)
    assert scripts(wants) == ["claim", "give_back", "claim"]
    assert wants[1].given["verb"] == "nack"


def test_a_message_at_its_last_delivery_is_delivered() -> None:
    assert result(operations.claim(engine(max_deliveries=3), 0), delivered(2)) is not None


@pytest.mark.parametrize(("reply", "applied"), [(b"acked 1", True), (b"lost", False)])
def test_finishing_returns_whether_the_lease_was_still_held(reply: bytes, applied: object) -> None:
    assert result(operations.finish(engine(), held()), reply) is applied


def test_finishing_without_a_log_keeps_nothing() -> None:
    (call,) = asked(operations.finish(engine(completed_log=3), held()), b"acked 1")
    assert "completed" not in call.given
    assert "done" not in call.given


@pytest.mark.parametrize(
    ("log", "key"),
    [(QueuePart.COMPLETED, b"completed"), (QueuePart.FAILED, b"failed"), (QueuePart.DEAD_LETTER, b"dead")],
)
def test_finishing_into_a_log_keeps_the_message_there(log: QueuePart, key: bytes) -> None:
    (call,) = asked(operations.finish(engine(), held(), log), b"acked 1")
    assert call.given["completed"] == b"rmq:{q}:" + key
    assert call.given["completed_cap"] > 10**9


def test_moving_back_to_pending_releases_the_lease() -> None:
    own = channels(b"returned 1 0")
    assert run(gateway_methods.move_message(own, "q::processing", "q::pending", "x", lease_token="~x:7.abc")) is True
    (call,) = own.find("q::pending")[0].driver.wants
    assert (call.script.name, call.given["verb"]) == ("leased/give_back", "release")


def test_an_unknown_answer_is_an_error() -> None:
    with pytest.raises(ScriptFailed, match="what"):
        result(operations.finish(engine(), held()), b"what")


@pytest.mark.parametrize(("reply", "renewed"), [(b"9000", True), (b"inf", True), (b"lost", False)])
def test_renewing_returns_whether_the_lease_is_still_held(reply: bytes, renewed: object) -> None:
    assert result(operations.unless_lost(settling.extend(engine(), held())), reply) is renewed


def test_trimming_keeps_the_newest() -> None:
    assert asked(operations.trim(engine(), QueuePart.FAILED, 10), b"OK") == [
        Command(("LTRIM", b"rmq:{q}:failed", 0, 9))
    ]


@pytest.mark.parametrize(("verb", "args"), [(gateway_methods.trim_queue, [10]), (gateway_methods.purge_queue, [])])
def test_the_processing_part_can_be_neither_trimmed_nor_purged(verb: Any, args: list[int]) -> None:
    with pytest.raises(ConfigurationError, match="process"):
        answer(verb, "q::processing", *args)


@pytest.mark.parametrize(
    ("part", "commands"),
    [(QueuePart.PROCESSING, ["ZCARD"]), (QueuePart.PENDING, ["LLEN", "ZCOUNT"]), (QueuePart.FAILED, ["LLEN"])],
)
def test_the_length_of_a_part_is_counted_by_redis(part: QueuePart, commands: list[str]) -> None:
    length, wants = drive(operations.length(engine(), part), [3] * len(commands))
    assert (length, [want.args[0] for want in wants]) == (3 * len(commands), commands)


def test_peeking_returns_the_next_messages_and_the_newest_of_a_log() -> None:
    for part in (QueuePart.PENDING, QueuePart.FAILED):
        found, (call,) = drive(operations.peek(engine(), part, 2), [[envelope("first"), envelope("second")]])
        assert (found, call.given["count"]) == ([b"first", b"second"], -2)


def test_peeking_at_the_processing_part_returns_the_payloads_of_leases() -> None:
    info = [b"me", b"h", 1, 0, b"5000", 1, 0, b"7", 0, 0]
    replies = [[b"a", b"b"], [info, info], [[envelope("x")], []]]
    assert result(operations.peek(engine(), QueuePart.PROCESSING, 9), *replies) == [b"x"]


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
