from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import pytest
import redis

from rmq_core import Batch, ConfigurationError, Lease, LeasedConfig, LeaseLost, Typed
from rmq_core.asyncio import Batch as AsyncBatch
from rmq_core.asyncio import LeasedQueue as AsyncQueue
from tests.core.leases import drain, expire, payloads
from tests.core.worlds import World


class HandlerFailed(Exception):
    pass


def test_a_block_that_ends_well_acks_its_lease(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abc"])
    with queue.process(max_messages=2, lease_id="job", owner="me") as batch:
        assert (payloads(batch), batch.payloads, len(batch)) == (["a", "b"], ["a", "b"], 2)
        assert (batch.lease.id, batch.queue.name, batch.isolation) == ("job", "q", None)
        assert queue.stats()[:3] == (1, 0, 2)
    assert queue.settled("job").acked == 2
    assert drain(queue) == ["c"]


def test_a_batch_without_work_is_false_and_has_no_lease(world: World) -> None:
    with world.queue().process() as batch:
        assert (bool(batch), len(batch), [*batch], batch.payloads, batch.isolation) == (False, 0, [], [], None)
        batch.check()
        batch.ack()
        with pytest.raises(ConfigurationError, match="nothing of 'q' was claimed"):
            _ = batch.lease


def test_a_block_that_raises_nacks_its_lease_and_the_exception_propagates(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    with pytest.raises(HandlerFailed, match=r"^no disk$"), queue.process(owner="me"):
        raise HandlerFailed("no disk")
    message = queue.claim().message
    assert message.deliveries == 2
    assert [failure[2:] for failure in message.history] == [("me", "HandlerFailed: no disk")]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_an_interrupted_block_leaves_its_lease_alone(world: World, interruption: type[BaseException]) -> None:
    queue = world.queue()
    queue.publish("x")
    with contextlib.suppress(interruption), queue.process(lease_id="job"):
        raise interruption
    assert queue.stats()[:4] == (0, 0, 1, 1)
    expire(world, "job")
    assert queue.claim().message.deliveries == 2


def test_messages_settled_in_the_block_stay_settled(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abc"])
    with contextlib.suppress(HandlerFailed), queue.process(max_messages=3) as batch:
        one, two, _ = batch
        batch.ack(one, two.ref)
        assert payloads(batch) == ["c"]
        raise HandlerFailed
    assert (batch.acked, batch.failed, batch.dead, batch.released) == (2, 1, 0, 0)
    assert drain(queue) == ["c"]
    queue.publish_many([*"def"])
    with queue.process(max_messages=3) as batch:
        one, two, _ = batch
        batch.nack(one, reason="no image")
        batch.release(two)
        assert queue.stats()[:3] == (2, 0, 1)
    assert (batch.acked, batch.failed, batch.dead, batch.released) == (1, 1, 0, 1)
    found = {m.payload: [f.reason for f in m.history] for m in queue.messages(queue.claim(max_messages=9))}
    assert found == {"d": ["no image"], "e": []}


def test_a_verdict_that_comes_too_late_raises_and_counts_nothing(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"ab"])
    with pytest.raises(LeaseLost), queue.process(max_messages=2, lease_id="job") as batch:  # noqa: PT012
        one, two = batch
        thief = world.queue().adopt("job", owner="thief")
        for verdict in (batch.ack, batch.nack, batch.release):
            with pytest.raises(LeaseLost):
                verdict(one, two)
    assert (batch.acked, batch.failed, batch.released) == (0, 0, 0)
    assert queue.ack(thief).settled == 2


@pytest.mark.parametrize("settle", ["finish", "give_up", "give_back"])
def test_a_batch_that_its_block_settled_as_a_whole_is_left_alone(world: World, settle: str) -> None:
    queue = world.queue()
    queue.publish_many([*"ab"])
    with contextlib.suppress(HandlerFailed), queue.process(max_messages=2) as batch:
        getattr(batch, settle)(*["why"] * (settle == "give_up"))
        assert not batch.keep(60)
        raise HandlerFailed
    assert batch.acked + batch.failed + batch.released == 2


def test_a_batch_made_of_a_claimed_lease_is_kept_for_a_retry(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    batch = made(world, queue, queue.claim(lease=10))
    assert batch.keep(1000)
    assert queue.extend(batch.lease) is not None
    assert payloads(batch) == ["x"]
    batch.finish()
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_a_block_whose_lease_was_lost_raises_at_its_end(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    with pytest.raises(LeaseLost), queue.process(lease_id="job"):
        thief = world.queue().adopt("job", owner="thief")
    assert queue.ack(thief).settled == 1


def test_a_block_that_saw_its_lease_lost_does_not_ack_what_it_may_have_left(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    seen = []
    with pytest.raises(LeaseLost, match="did not ack"), queue.process(lease_id="job") as batch:  # noqa: PT012
        batch.lease.state.until = 0  # as after an event loop was blocked: Redis still has the lease
        seen.append(batch.lease.lost)
    assert seen == [True]
    assert queue.lease_info("job").settled == 0
    expire(world, "job")
    assert queue.claim().message.deliveries == 2


def test_a_block_that_did_not_look_acks_its_lease_if_redis_has_it_however_late(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    with queue.process(lease_id="job") as batch:
        batch.lease.state.until = 0
    assert queue.settled("job").acked == 1


def test_an_exception_is_not_hidden_by_a_nack_that_fails(world: World, caplog: pytest.LogCaptureFixture) -> None:
    queue = world.queue()
    queue.publish("x")
    error = HandlerFailed("mine")
    with caplog.at_level(logging.WARNING, "rmq"):
        try:
            with queue.process(lease_id="job"):
                world.queue().adopt("job", owner="thief")
                raise error
        except HandlerFailed as raised:
            outcome = raised
    assert outcome is error
    assert "could not be nacked" in caplog.text


def made(world: World, queue: Any, lease: Lease) -> Any:
    """Return a batch of this lease with blocking methods."""
    if world.flavour == "sync":
        return Batch(queue, lease)
    return world.loop.blocking(AsyncBatch(queue.inner, lease))  # type: ignore[attr-defined]


def decorated(world: World, queue: Any, handle: Any) -> Any:
    """`handle` under `@queue.process()`, callable from the test."""
    if world.flavour == "sync":
        return queue.process()(handle)

    async def handle_later(batch: Any, *args: Any, **options: Any) -> Any:
        return handle(world.loop.blocking(batch), *args, **options)  # type: ignore[attr-defined]

    wrapped = queue.process().inner(handle_later)
    return lambda *args, **options: world.loop.call(wrapped, *args, **options)  # type: ignore[attr-defined]


def test_a_decorated_function_claims_works_and_acks_at_each_call(world: World) -> None:
    queue = world.queue()
    handle = decorated(world, queue, lambda batch, factor, plus=0: int(batch.lease.message.payload) * factor + plus)
    queue.publish_many(["2", "3"])
    assert [handle(10), handle(10, plus=1), handle(10)] == [20, 31, None]
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_a_decorated_function_is_not_called_for_a_batch_that_the_codec_refuses(world: World) -> None:
    queue = world.queue(config=LeasedConfig(codec=Typed(int)))
    handle = decorated(world, queue, lambda batch: batch.lease.message.payload)
    world.queue().publish_many(["bad", 7])
    assert [handle(), handle(), handle()] == [None, 7, None]
    assert queue.stats()[:5] == (0, 0, 0, 0, 1)


async def test_a_cancelled_task_leaves_its_lease_alone(async_redis_client: redis.asyncio.Redis) -> None:
    async with AsyncQueue(async_redis_client, "q") as queue:
        await queue.publish("x")
        working = asyncio.Event()

        async def work() -> None:
            async with queue.process(lease_id="job"):
                working.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await working.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        info = await queue.lease_info("job")
        assert info is not None
        assert (info.count, info.settled) == (1, 0)
