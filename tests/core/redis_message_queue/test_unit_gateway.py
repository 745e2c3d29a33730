"""The settings of a gateway and how long it tries; what it sends to Redis is tested in `test_gateway_methods`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import fakeredis
import pytest

from rmq_core.exchange import Patience
from rmq_core.redis_message_queue.queue import RedisGateway
from tests.core.redis_message_queue.by_hand import body


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


CLAIM = ("wait_for_message_and_move", "q::processing")


def test_calls_are_retried_for_the_budget_and_a_claim_no_longer_than_its_wait() -> None:
    made = gateway(retry_budget_seconds=60, retry_initial_delay_seconds=0.5, retry_max_delay_seconds=2)
    published, claimed = patience_of(made, "publish_message", "x", "key"), patience_of(made, *CLAIM)
    assert published[:3] == (60, 0.5, 2)
    assert claimed.budget_s == 5


def test_without_a_budget_or_a_deduplication_key_rmq_retries_nothing() -> None:
    assert patience_of(gateway(retry_budget_seconds=0), "publish_message", "x", "key").budget_s is None
    assert patience_of(gateway(), "add_message", "x").budget_s is None


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
