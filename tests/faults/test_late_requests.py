"""A request that is delayed on the wire is resent; when the first one arrives at last, the queue has changed.

Here the call was answered, usually with a refusal, and afterwards another client removed the reason of the refusal. The
late request must not have the effect that its caller was told did not happen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis

from rmq_core import LeaseAlreadySettled, LeasedConfig, LeaseLost, LeaseOwnedByOther, QueueFull, RedisMessageQueueError
from tests.core.worlds import World
from tests.faults import picture
from tests.faults.operations import ONCE, claimed, dead, ids, nothing, published
from tests.faults.proxy import Fault, Proxy


@dataclass(frozen=True)
class Late:
    """`act` is answered with `told`; then `change` happens, and then the first request for `script` arrives."""

    name: str
    act: Callable[[Any, Any], Any]
    told: Any
    change: Callable[[Any, Any], Any]
    prepare: Callable[[Any, redis.Redis], Any] = nothing
    config: LeasedConfig = field(default_factory=LeasedConfig)


FULL = LeasedConfig(max_ready=3)
CASES = (
    Late(
        "a refused publish",
        lambda queue, _: queue.publish("late"),
        QueueFull,
        lambda queue, _: queue.ack(queue.claim(max_messages=2)),
        published(3),
        FULL,
    ),
    Late(
        "a refused publish of many",
        lambda queue, _: queue.publish_many(["late", "later"]),
        QueueFull,
        lambda queue, _: queue.ack(queue.claim(max_messages=3)),
        published(3),
        FULL,
    ),
    Late("a claim of nothing", lambda queue, _: queue.claim(), None, lambda queue, _: queue.publish("x")),
    Late(
        "a claim by id of nothing",
        lambda queue, _: queue.claim(lease_id="job"),
        None,
        lambda queue, _: queue.publish("x"),
    ),
    Late(
        "a claim of what is settled",
        lambda queue, _: queue.claim(lease_id="job"),
        LeaseAlreadySettled,
        lambda queue, client: client.delete(f"rmq:{{{queue.name}}}:done:job"),
        lambda queue, client: (queue.ack(claimed(2, lease_id="job")(queue, client)), client)[1],
    ),
    Late(
        "an adoption that came too early",
        lambda queue, _: queue.adopt("job"),
        LeaseLost,
        lambda queue, _: queue.claim(lease_id="job"),
        published(3),
    ),
    Late(
        "an adoption of another's lease",
        lambda queue, _: queue.adopt("job", owner="me", if_owner="a"),
        LeaseOwnedByOther,
        lambda queue, _: queue.adopt("job", owner="a"),
        claimed(2, lease_id="job", owner="b"),
    ),
    Late(
        "a cancellation of a leased message",
        lambda queue, lease: queue.admin.cancel(lease.messages[0].id),
        False,
        lambda queue, lease: queue.release(lease),
        claimed(2),
    ),
    Late(
        "a redrive of nothing",
        lambda queue, _: queue.admin.redrive(),
        0,
        lambda queue, _: dead(2)(queue, None),
        config=ONCE,
    ),
    Late("a pause", lambda queue, _: queue.admin.pause(), None, lambda queue, _: queue.admin.resume(), ids),
    Late("a resumption", lambda queue, _: queue.admin.resume(), None, lambda queue, _: queue.admin.pause(), ids),
    Late("a purge", lambda queue, _: queue.admin.purge("ready"), 3, lambda queue, _: queue.publish("x"), ids),
    Late(
        "a publish of what was acked since",
        lambda queue, _: queue.publish("x").accepted,
        True,
        lambda queue, _: queue.ack(queue.claim()),
    ),
    Late(
        "a claim whose lease was acked since",
        lambda queue, _: queue.claim().id[0],
        "~",
        lambda queue, _: [queue.ack(queue.adopt(info.id)) for info in queue.admin.leases()],
        published(3),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_late_request_has_no_effect_that_its_caller_was_told_did_not_happen(
    world: World, wire: Proxy, case: Late, request: pytest.FixtureRequest
) -> None:
    for at in range(8):
        name = f"{request.node.name} {at}".replace("[", "").replace("]", "")
        calm, queue = world.queue(name, case.config), world.queue(name, case.config, settings=wire.url)
        given = case.prepare(calm, world.client)
        wire.cut(Fault.REQUEST_LATE, at)
        assert _told(case.act, queue, given) == case.told
        if not wire.hit:  # the call sends fewer commands than that
            assert at > 0
            return
        case.change(calm, given)
        before = _state(world, calm)
        assert wire.deliver_late()
        assert _state(world, calm) == before, f"the command number {at} came late"
    pytest.fail("the call never ended undisturbed")


def test_a_deduplicated_publish_is_stored_once_even_when_it_comes_after_its_call_slot_expired(
    world: World, wire: Proxy
) -> None:
    queue = world.queue("dedup", settings=wire.url)
    queue.publish("warm-up")
    wire.cut(Fault.REQUEST_LATE)
    assert queue.publish_many(["a", "b", "a"], dedup_key=str)[:2] == (2, 1)
    for slot in world.client.keys("rmq:{dedup}:slot:*"):
        world.client.delete(slot)
    (late,) = wire.deliver_late()
    assert late.startswith(b"accepted 0 110")
    assert queue.stats().ready == 3


def _told(act: Callable[[Any, Any], Any], queue: Any, given: Any) -> Any:
    try:
        return act(queue, given)
    except RedisMessageQueueError as error:
        return type(error)


def _state(world: World, queue: Any) -> dict[str, Any]:
    return {**picture.of_queue(world.client, queue.name), "paused": queue.stats().paused}
