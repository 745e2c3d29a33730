"""The settings of a gateway and how long it tries; what it sends to Redis is tested in `test_gateway_methods`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import fakeredis
import pytest
from redis import exceptions as redis_errors

from rmq_core.compat.errors import RetryBudgetExhaustedError
from rmq_core.compat.gateway_methods import Channel, either, giving_up
from rmq_core.compat.keys import QueuePart
from rmq_core.compat.sync import RedisGateway
from rmq_core.errors import ConfigurationError, translate
from rmq_core.events import EventOutcome, Operation, QueueEvent
from rmq_core.exchange import Patience
from rmq_core.interrupt_handler import BaseGracefulInterruptHandler
from tests.unit.message_queue.by_hand import body


class Interrupt(BaseGracefulInterruptHandler):
    def __init__(self) -> None:
        self.interrupted = False

    def is_interrupted(self) -> bool:
        return self.interrupted


def gateway(**options: Any) -> RedisGateway:
    return RedisGateway(redis_client=fakeredis.FakeRedis(), **options)


class Asked(Exception):
    """An exception that is raised in place of a reply."""


def patience_of(made: RedisGateway, verb: str, *args: Any) -> Patience:
    """Return the retry settings with which a gateway calls Redis."""
    channel, _ = made.channels.find("q::pending")
    found: list[Patience] = []

    def run(_: object, patience: Patience) -> None:
        found.append(patience)
        raise Asked

    channel.driver = SimpleNamespace(run=run)
    with pytest.raises(Asked):
        getattr(made, verb)("q::pending", *args)
    return found[0]


CUT = redis_errors.ConnectionError("cut")
CLAIM = ("wait_for_message_and_move", "q::processing")


def test_the_settings_of_a_gateway_are_those_of_its_engine() -> None:
    made = gateway(
        message_visibility_timeout_seconds=7, max_delivery_count=3, dead_letter_queue="q::dlq", max_pending_length=5,
        message_deduplication_log_ttl_seconds=9,
    )  # fmt: skip
    engine = made.channels.find("q::pending")[0].engine
    assert (engine.config.lease, engine.config.max_deliveries, engine.config.max_ready) == (7, 3, 5)
    assert (engine.dedup_window_ms, engine.name) == (9000, "q")


def test_all_parts_of_a_queue_share_one_engine() -> None:
    made = gateway()
    channel, part = made.channels.find("q::pending")
    assert made.channels.find("q::processing") == (channel, QueuePart.PROCESSING)
    assert part == QueuePart.PENDING
    assert made.channels.find("other::pending")[0] is not channel


def test_the_place_for_dead_letters_may_have_any_name() -> None:
    made = gateway(message_visibility_timeout_seconds=7, max_delivery_count=3, dead_letter_queue="poison")
    channel, _ = made.channels.find("q::pending")
    assert made.channels.find("poison") == (channel, QueuePart.DEAD_LETTER)
    assert made.channels.log("poison") == QueuePart.DEAD_LETTER


def test_calls_are_retried_for_the_budget_and_a_claim_no_longer_than_its_wait() -> None:
    made = gateway(retry_budget_seconds=60, retry_initial_delay_seconds=0.5, retry_max_delay_seconds=2)
    published, claimed = patience_of(made, "publish_message", "x", "key"), patience_of(made, *CLAIM)
    assert published[:3] == (60, 0.5, 2)
    assert claimed.budget_s == 5


def test_without_a_budget_or_a_deduplication_key_rmq_retries_nothing() -> None:
    assert patience_of(gateway(retry_budget_seconds=0), "publish_message", "x", "key").budget_s is None
    assert patience_of(gateway(), "add_message", "x").budget_s is None


def test_an_interrupt_and_a_drained_queue_end_a_wait() -> None:
    interrupt, drained = Interrupt(), [False]
    token = giving_up.set(lambda: drained[0])
    patience = patience_of(gateway(interrupt=interrupt), *CLAIM)
    giving_up.reset(token)
    assert not patience.over
    interrupt.interrupted = True
    assert patience.over
    interrupt.interrupted, drained[0] = False, True
    assert patience.over


def test_an_interrupted_gateway_claims_nothing() -> None:
    interrupt = Interrupt()
    made = gateway(interrupt=interrupt)
    made.add_message("q::pending", "x")
    interrupt.interrupted = True
    assert made.wait_for_message_and_move("q::pending", "q::processing") is None
    assert made.queue_length("q::pending") == 1


@pytest.mark.parametrize(
    ("one", "other", "expected"), [(True, False, True), (False, False, False), (False, True, True)]
)
def test_either_returns_true_when_one_of_its_two_functions_does(one: object, other: object, expected: object) -> None:
    combined = either(lambda: bool(one), lambda: bool(other))
    assert combined is not None
    assert combined() is expected
    assert either(None, None) is None


def test_events_of_the_engine_are_emitted_in_the_terms_of_the_message_queue() -> None:
    made = gateway(message_visibility_timeout_seconds=7, max_delivery_count=3, dead_letter_queue="q::dlq")
    channel, _ = made.channels.find("q::pending")
    channel.listen()
    engine = channel.engine
    for operation in (Operation.PUBLISH, Operation.RECLAIM, Operation.TAKEOVER, Operation.DEAD):
        engine.state(operation, 1, "~a", message_id="m")
    told = list(channel.new_events())
    assert [event.operation for event in told] == ["claim_reclaim", "claim_reclaim", "dlq"]
    assert (told[2].destination_queue, told[2].max_delivery_count, told[2].message_id) == ("q::dlq", 3, "m")
    assert list(channel.new_events()) == []


def unreachable(made: RedisGateway) -> Channel:
    """Return the channel of a gateway whose claims fail twice, the second time finally."""
    channel, _ = made.channels.find("q::pending")

    def run(_: object, patience: Patience) -> None:
        assert patience.noticed is not None
        patience.noticed(CUT)
        raise translate(CUT)

    channel.driver = SimpleNamespace(run=run)
    return channel


def test_the_event_of_a_spent_claim_budget_contains_its_attempt() -> None:
    made = gateway()
    channel = unreachable(made)
    channel.listen()
    with pytest.raises(RetryBudgetExhaustedError):
        made.wait_for_message_and_move("q::pending", "q::processing")
    told = list(channel.new_events())
    assert [event.operation for event in told] == ["retry_attempt", "retry_exhausted"]
    assert len({event.claim_id for event in told} - {None}) == 1
    assert [event.exception_type for event in told] == ["ConnectionError"] * 2


def test_events_without_a_callback_are_dropped() -> None:
    made = gateway()
    channel = unreachable(made)
    with pytest.raises(RetryBudgetExhaustedError):
        made.wait_for_message_and_move("q::pending", "q::processing")
    assert not channel.noted


def test_a_message_that_did_not_reach_its_handler_is_claimed_again_without_counting() -> None:
    made = gateway(message_visibility_timeout_seconds=7)
    made.add_message("q::pending", "x")
    channel, _ = made.channels.find("q::pending")
    claimed: Any = made.wait_for_message_and_move("q::pending", "q::processing")
    assert body(made).keep(claimed)
    assert channel.engine.unanswered
    again: Any = made.wait_for_message_and_move("q::pending", "q::processing")
    assert again.stored_message == claimed.stored_message
    assert again.stored_message.grant.lease.message.deliveries == 1


def test_names_that_are_no_part_of_a_queue_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="no part of a queue"):
        gateway().add_message("jobs", "x")


def test_an_event_has_the_attributes_of_both_event_types() -> None:
    event = QueueEvent("q", Operation.ACK, EventOutcome.SUCCESS, claim_id="job")
    assert event.lease_id == "job"
