"""One attempt means one: what a stream queue sends when Redis is away, and what it says then.

The sections are those of the QueueConsumer specification.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from rmq_core.errors import QueueError
from tests.core.streams.stage import Journal, Stage
from tests.core.worlds import World
from tests.faults.patience import PATIENCE_S
from tests.faults.proxy import Fault, Proxy

ACTS: dict[str, Callable[[Any, Any], Any]] = {
    "XREADGROUP": lambda consumer, _: consumer.next(),
    "XACK": lambda consumer, message: consumer.ack(message),
    "XPENDING": lambda consumer, _: consumer.claim_stale(1),
    "XADD": lambda consumer, _: consumer.queue.enqueue({"n": 2}),
}


@pytest.fixture
def stage(world: World) -> Stage:
    return Stage(world)


def client_of(world: World, url: str) -> Any:
    """A client with its own retries, as clients made by `Redis(...)` have them."""
    if world.flavour == "sync":
        return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 5))
    return redis.asyncio.Redis.from_url(url, retry=redis.asyncio.retry.Retry(NoBackoff(), 5))


def working(stage: Stage, wire: Proxy) -> tuple[Any, Any]:
    """A consumer behind the proxy that holds a message."""
    consumer = stage.world.make("QueueConsumer", stage.config(), settings=client_of(stage.world, wire.url))
    consumer.queue.enqueue({"n": 1})
    message = consumer.next()
    assert message is not None
    return consumer, message


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.REQUEST_LOST], ids=["reply", "request"])
@pytest.mark.parametrize("command", ACTS)
def test_a_lost_connection_is_a_queue_error_after_one_command(
    stage: Stage, wire: Proxy, command: str, fault: Fault
) -> None:
    """Section 9.1: surface the failure as a QueueError; MUST NOT retry internally, MUST NOT suppress the error."""
    consumer, message = working(stage, wire)
    wire.cut(fault)
    with pytest.raises(QueueError, match="Redis did not answer"):
        ACTS[command](consumer, message)
    time.sleep(0.1)
    assert [name.decode() for name in wire.commands] == [command]


def test_an_entry_whose_answer_was_lost_is_stored_once(stage: Stage, wire: Proxy) -> None:
    """Section 9.1: no hidden retry, so no hidden duplicate."""
    consumer, _ = working(stage, wire)
    wire.cut(Fault.REPLY_LOST)
    with pytest.raises(QueueError):
        consumer.queue.enqueue({"n": 2})
    assert stage.client.xlen("orders") == 2


def test_no_state_of_the_connection_is_kept(stage: Stage, wire: Proxy) -> None:
    """Section 9.1: MUST NOT track connection state; the next call is as good as the first."""
    consumer, message = working(stage, wire)
    wire.cut(Fault.REQUEST_LOST)
    with pytest.raises(QueueError):
        consumer.ack(message)
    consumer.ack(message)
    assert stage.pending() == []
    assert consumer.next() is None


def test_a_connection_lost_while_a_read_blocks_is_a_queue_error(stage: Stage, wire: Proxy) -> None:
    """Section 9.1: during message read."""
    consumer, _ = working(stage, wire)
    waiting = stage.world.in_background(lambda: consumer.next(block_ms=5000))
    time.sleep(0.2)
    wire.break_all()
    with pytest.raises(QueueError, match="Redis did not answer"):
        waiting.result(PATIENCE_S)


def test_the_iteration_and_run_end_with_the_failure(stage: Stage, wire: Proxy) -> None:
    """Section 9.1: stop further processing, allow the hosting service to react. Section 7: propagates exceptions."""
    consumer, _ = working(stage, wire)
    tx = Journal()
    for loop in (
        lambda: list(consumer.iter_messages()),
        lambda: consumer.run(handler=stage.handler(lambda *_: None), db_factory=stage.database(tx.begin)),
    ):
        wire.cut(Fault.REQUEST_LOST)
        with pytest.raises(QueueError):
            loop()
        assert len(wire.commands) == 1
    assert tx.steps == []


def test_an_ack_that_fails_after_the_commit_is_a_queue_error_and_leaves_the_message_pending(
    stage: Stage, wire: Proxy
) -> None:
    """Section 11 and 1.1: if ack fails it propagates; commit already happened."""
    consumer, _ = working(stage, wire)
    entry_id = consumer.queue.enqueue({"n": 2})
    tx = Journal()
    wire.cut(Fault.REQUEST_LOST, at=1)
    with pytest.raises(QueueError):
        consumer.run(handler=stage.handler(lambda *_: None), db_factory=stage.database(tx.begin))
    assert [name.decode() for name in wire.commands] == ["XREADGROUP", "XACK"]
    assert tx.steps == ["begin", "commit"]
    assert entry_id in stage.pending()


def test_a_failed_claim_is_a_queue_error_and_its_messages_become_stale_again(stage: Stage, wire: Proxy) -> None:
    """Section 9.1: during claiming."""
    consumer, message = working(stage, wire)
    time.sleep(0.03)
    wire.cut(Fault.REPLY_LOST, at=1)
    with pytest.raises(QueueError):
        consumer.claim_stale(20)
    assert [name.decode() for name in wire.commands] == ["XPENDING", "XCLAIM"]
    time.sleep(0.03)
    assert consumer.claim_stale(20) == [message]


@contextlib.contextmanager
def slamming() -> Iterator[tuple[str, list[float]]]:
    """A port whose connections are accepted, noted and closed."""
    accepted: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    accepted.append(time.monotonic())
                    connection.close()

        threading.Thread(target=accept, daemon=True).start()
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0", accepted
        listener.shutdown(socket.SHUT_RDWR)


def test_a_connection_is_tried_once_too(stage: Stage) -> None:
    """Section 9.1: MUST NOT retry internally: not by the client's own retries of connecting either."""
    with slamming() as (url, accepted):
        consumer = stage.world.make("QueueConsumer", stage.config(), settings=client_of(stage.world, url))
        with pytest.raises(QueueError, match="Redis did not answer"):
            consumer.next()
        time.sleep(0.2)
        assert len(accepted) == 1


def test_an_unreachable_server_is_a_queue_error_at_once(stage: Stage) -> None:
    """Section 9.1: surface the failure."""
    consumer = stage.world.make("QueueConsumer", stage.config(), settings="redis://127.0.0.1:1/0")
    began = time.monotonic()
    with pytest.raises(QueueError):
        consumer.next()
    assert time.monotonic() - began < 25  # other queues retry for this long
