"""Leases that are renewed while a handler works, and handlers that are notified when a renewal failed."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from rmq_core.errors import GatewayContractError
from rmq_core.redis_message_queue.heartbeat import Heartbeats
from tests.core.redis_message_queue.behind import PATIENCE_S, eventually, expire, in_hand, left_s, let_pass
from tests.core.redis_message_queue.gateways import foreign
from tests.core.redis_message_queue.handlers import abandon, handle
from tests.core.redis_message_queue.places import Fake
from tests.core.redis_message_queue.recorder import Recorder
from tests.core.redis_message_queue.worlds import AsyncWorld, SyncWorld, World

OFTEN: dict[str, Any] = {"heartbeat_interval_seconds": 0.02}


@pytest.fixture
def hasty_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the end of a block wait only 0.1 s for a renewal, as it does with such short intervals outside the tests."""
    monkeypatch.setattr(Heartbeats, "stop_s", 0.1)


def test_a_long_handler_keeps_its_message(one_world: World) -> None:
    queue = one_world.queue(visibility_timeout_seconds=300, heartbeat_interval_seconds=0.05)
    queue.publish("x")
    with queue.process_message() as message:
        for _ in range(3):
            let_pass(one_world, 200)
            eventually(lambda: left_s(one_world) > 250)
            with one_world.glance().process_message() as nothing:
                assert nothing is None
    assert message == "x"
    assert in_hand(one_world) == 0


def test_every_renewal_emits_an_event(world: World) -> None:
    recorder = Recorder(world)
    queue = world.queue(on_event=recorder.callback, **OFTEN)
    queue.publish("x")
    with queue.process_message():
        eventually(lambda: recorder.steps.count("lease_renew/success") >= 2)
    claim = recorder.only("claim")
    for event in (event for event in recorder.events if event.operation == "lease_renew"):
        assert (event.message_id, event.lease_token_hash) == (claim.message_id, claim.lease_token_hash)
    assert recorder.steps[-1] == "ack/success"


def test_renewals_end_with_the_block(world: World) -> None:
    recorder = Recorder(world)
    queue = world.queue(on_event=recorder.callback, **OFTEN)
    queue.publish("x")
    with queue.process_message():
        eventually(lambda: "lease_renew/success" in recorder.steps)
    count = len(recorder.events)
    time.sleep(0.1)
    assert len(recorder.events) == count


def test_a_lease_that_was_taken_over_ends_the_heartbeat_and_calls_the_failure_callback(world: World) -> None:
    recorder, called = Recorder(world), threading.Event()
    queue = world.queue(on_event=recorder.callback, on_heartbeat_failure=world.callback(called.set), **OFTEN)
    queue.publish("x")
    with pytest.warns(RuntimeWarning, match="lease"):
        handle(queue, lambda: steal(world, world.glance()), lambda: called.wait(PATIENCE_S), lambda: time.sleep(0.1))
    assert called.is_set()
    failed = recorder.only("lease_renew_failed")
    assert failed.message_id == recorder.only("claim").message_id
    assert recorder.steps[-2:] == ["ack/skipped", "stale_lease_ack/skipped"]


def steal(world: World, thief: Any) -> None:
    """Let the claim expire and another consumer take it, while heartbeats try to renew it."""

    def stolen() -> bool:
        expire(world)
        return bool(abandon(thief) == "x")

    eventually(stolen)


def test_a_renewal_that_fails_warns_and_ends_the_heartbeat(no_world: World) -> None:
    def fail(*_: Any, **__: Any) -> bool:
        raise OSError("renew")

    recorder, called = Recorder(no_world), threading.Event()
    gateway, _ = foreign(no_world, renew_message_lease=fail)
    queue = no_world.queue(
        gateway=gateway, on_event=recorder.callback, on_heartbeat_failure=no_world.callback(called.set), **OFTEN
    )
    queue.publish("x")
    with pytest.warns(RuntimeWarning, match="renew"), queue.process_message():
        assert called.wait(PATIENCE_S)
    event = recorder.only("lease_renew_failed")
    assert (event.outcome, event.exception_type) == ("failure", "OSError")
    assert recorder.steps[-1] == "ack/success"


def test_a_renewal_that_does_not_return_a_bool_breaks_the_contract(no_world: World) -> None:
    recorder, called = Recorder(no_world), threading.Event()
    gateway, _ = foreign(no_world, renew_message_lease=lambda *_, **__: None)
    queue = no_world.queue(
        gateway=gateway, on_event=recorder.callback, on_heartbeat_failure=no_world.callback(called.set), **OFTEN
    )
    queue.publish("x")
    with pytest.warns(RuntimeWarning, match="renew"), queue.process_message():
        assert called.wait(PATIENCE_S)
    assert isinstance(recorder.only("lease_renew_failed").error, GatewayContractError)


def test_a_failure_callback_that_raises_warns_without_further_effect(no_world: World) -> None:
    called = threading.Event()

    def fail() -> None:
        called.set()
        raise LookupError("callback")

    gateway, shelf = foreign(no_world, renew_message_lease=lambda *_, **__: False)
    queue = no_world.queue(gateway=gateway, on_heartbeat_failure=no_world.callback(fail), **OFTEN)
    queue.publish("x")
    with pytest.warns(RuntimeWarning, match="on_heartbeat_failure"):
        handle(queue, lambda: called.wait(PATIENCE_S), lambda: time.sleep(0.05))
    assert called.is_set()
    assert shelf.lists["q::processing"] == []


def test_a_gateway_is_notified_when_its_renewal_is_no_longer_needed(no_world: World) -> None:
    observed = threading.Event()

    def renew(*_: Any, is_interrupted: Any = None, **__: Any) -> bool:
        if is_interrupted is not None and not is_interrupted.is_interrupted():
            observed.set()
        return True

    gateway, _ = foreign(no_world, renew_message_lease=renew)
    queue = no_world.queue(gateway=gateway, **OFTEN)
    queue.publish("x")
    with queue.process_message():
        assert observed.wait(PATIENCE_S)


def test_a_renewal_that_hangs_delays_the_end_of_the_block_only_a_little(hasty_ends: None) -> None:
    hanging, released = threading.Event(), threading.Event()

    def hang(*_: Any, **__: Any) -> bool:
        hanging.set()
        return released.wait(2 * PATIENCE_S)

    with SyncWorld(Fake()) as world:
        recorder = Recorder(world)
        gateway, _ = foreign(world, renew_message_lease=hang)
        queue = world.queue(gateway=gateway, on_event=recorder.callback, **OFTEN)
        queue.publish("x")
        began = time.monotonic()
        with pytest.warns(RuntimeWarning, match=r"[Hh]eartbeat"):
            handle(queue, lambda: hanging.wait(PATIENCE_S))
        assert time.monotonic() - began < PATIENCE_S
        released.set()
    assert recorder.only("heartbeat_stop_timeout").outcome == "failure"


def test_a_renewal_task_that_hangs_is_cancelled_at_the_end_of_the_block(hasty_ends: None) -> None:
    hanging = threading.Event()

    async def hang(*_: Any, **__: Any) -> bool:
        hanging.set()
        await asyncio.sleep(2 * PATIENCE_S)
        return True

    with AsyncWorld(Fake()) as world:
        gateway, _ = foreign(world)
        gateway.renew_message_lease = hang
        queue = world.queue(gateway=gateway, **OFTEN)
        queue.publish("x")
        with queue.process_message():
            assert hanging.wait(PATIENCE_S)
            began = time.monotonic()
        assert time.monotonic() - began < PATIENCE_S


@pytest.mark.parametrize("error", [None, ZeroDivisionError])
@pytest.mark.parametrize("made", [SyncWorld, AsyncWorld])
def test_a_lease_is_renewed_while_a_slow_gateway_settles(made: Any, error: type[Exception] | None) -> None:
    settling, renewed = threading.Event(), threading.Event()

    def renew(*_: Any, **__: Any) -> bool:
        if settling.is_set():
            renewed.set()
        return not renewed.is_set()  # the last renewal comes too late

    async def remove_later(*args: Any, **options: Any) -> bool:
        settling.set()
        assert await asyncio.to_thread(renewed.wait, PATIENCE_S)
        return shelf.remove_message(*args, **options)

    def remove(*args: Any, **options: Any) -> bool:
        return asyncio.run(remove_later(*args, **options))

    with made(Fake()) as world:
        recorder, failed = Recorder(world), threading.Event()
        gateway, shelf = foreign(world, renew_message_lease=renew)
        gateway.remove_message = remove if world.flavour == "sync" else remove_later
        queue = world.queue(
            gateway=gateway, on_event=recorder.callback, on_heartbeat_failure=world.callback(failed.set), **OFTEN
        )
        queue.publish("x")
        with suppress(ZeroDivisionError):
            handle(queue, error=error and error())
    assert recorder.steps[-1] == ("nack/success" if error else "ack/success")
    assert not failed.is_set()
    assert not any(step.startswith("lease_renew_failed") for step in recorder.steps)
