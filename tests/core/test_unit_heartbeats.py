from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import pytest

from rmq_core import aio
from rmq_core import queue as heartbeats
from rmq_core.aio import HeartbeatTask
from rmq_core.errors import QueueUnavailable
from rmq_core.messages import Lease
from rmq_core.queue import Heartbeat, HeartbeatThread, HeartbeatThreads, settle_heartbeat
from tests.core.leased.by_hand import held

PATIENCE_S = 300


class Clock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    turned = Clock()
    monkeypatch.setattr(heartbeats, "time", turned)
    monkeypatch.setattr(aio, "time", turned)
    monkeypatch.setattr("rmq_core.messages.monotonic", turned.monotonic)
    return turned


class Extender:
    """A queue that answers extensions as configured, and records the requests."""

    def __init__(self, *answers: list[bool] | BaseException, server: str = "here") -> None:
        self.server = server
        self.answers = list(answers)
        self.asked: list[list[tuple[str, float | None]]] = []
        self.called = threading.Event()

    def extend_all(self, leases: Sequence[tuple[Lease, float | None]]) -> list[bool]:
        self.asked.append([(lease.id, by) for lease, by in leases])
        self.called.set()
        answer = self.answers.pop(0) if self.answers else [True] * len(leases)
        if isinstance(answer, BaseException):
            raise answer
        return answer


class AsyncExtender:
    """The asyncio version of Extender."""

    def __init__(self, *answers: list[bool] | Exception) -> None:
        self.inner = Extender(*answers)
        self.called = asyncio.Event()

    async def extend_all(self, leases: Sequence[tuple[Lease, float | None]]) -> list[bool]:
        self.called.set()
        return self.inner.extend_all(leases)


def heartbeat(lease_s: float = 30, queue: Any = None, *, fresh: bool = True, **about: Any) -> Heartbeat[Any]:
    return Heartbeat(queue or Extender(), about.pop("lease", None) or held(), lease_s, fresh=fresh, **about)


@pytest.mark.usefixtures("clock")
def test_a_lease_claimed_just_now_is_extended_after_a_third_of_its_time() -> None:
    kept = heartbeat(30)
    assert (kept.next_at, kept.lost_at) == (110, 130)
    assert kept.lease.state.until == 130
    assert not kept.over


def test_an_extension_refused_because_this_process_settled_the_lease_is_no_loss(clock: Clock) -> None:
    lost: list[Lease] = []
    kept = heartbeat(30, on_lost=lost.append)
    kept.asked()
    with kept.lease.state:  # an ack that reached Redis before the heartbeat, and whose reply is still on its way
        settle_heartbeat(kept, False, 110)
    settle_heartbeat(kept, False, 110)  # or has just arrived
    assert (kept.over, lost, kept.next_at) == (False, [], clock.now + 1)
    kept.asked()
    settle_heartbeat(kept, False, 111)
    assert lost == [kept.lease]


@pytest.mark.parametrize(("lease_s", "pause_s"), [(5, 0.5), (30, 1), (3600, 1)])
def test_an_unanswered_extension_is_soon_retried(clock: Clock, lease_s: float, pause_s: float) -> None:
    kept = heartbeat(lease_s)
    clock.now = kept.next_at
    settle_heartbeat(kept, None, clock.now)
    assert kept.next_at == clock.now + pause_s
    assert not kept.lease.lost


def test_an_extension_is_tried_last_at_the_deadline_and_then_the_lease_is_lost(clock: Clock) -> None:
    lost: list[Lease] = []
    kept = heartbeat(30, on_lost=lost.append)
    clock.now = 129.5
    settle_heartbeat(kept, None, clock.now)
    assert kept.next_at == kept.lost_at == 130
    assert lost == []
    clock.now = 130
    assert kept.lease.lost
    settle_heartbeat(kept, None, clock.now)
    assert lost == [kept.lease]


def test_a_callback_that_reads_a_cancelled_result_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def cancelled(_: Lease) -> None:
        raise asyncio.CancelledError

    heartbeat(on_lost=cancelled).lose()
    assert caplog.messages == ["on_lost raised for lease 'job'"]


def test_a_heartbeat_extends_the_leases_of_a_queue_in_one_write_and_drops_ended_ones(clock: Clock) -> None:
    own, queue = HeartbeatThread(), Extender([True, False, True])
    kept = heartbeat(30, queue)
    lost = heartbeat(20, queue, lease=held(lease_id="b"))
    settled = heartbeat(10, queue, lease=held(lease_id="c"))
    own._heartbeats = {kept, lost, settled}
    settled.lease.state.settled = True
    clock.now = 112
    own._send(queue, [kept, lost, settled])
    assert queue.asked == [[("job", 30), ("b", 20), ("c", 10)]]
    assert own._heartbeats == {kept}
    assert (kept.lease.lost, lost.lease.lost, settled.lease.lost) == (False, True, False)
    assert kept.lost_at == 142


def test_a_beat_that_fails_loses_nothing_before_the_deadline(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    own, queue = HeartbeatThread(), Extender(QueueUnavailable("gone"), QueueUnavailable("gone"))
    short, long = heartbeat(9, queue), heartbeat(30, queue, lease=held(lease_id="b"))
    own._heartbeats = {short, long}
    clock.now = 108
    own._send(queue, [short, long])
    assert (short.next_at, long.next_at) == (108.9, 109)
    assert "heartbeat of 2 leases failed: gone" in caplog.text
    clock.now = 109
    own._send(queue, [short, long])
    assert (short.lease.state.lost, long.lease.state.lost) == (True, False)
    assert own._heartbeats == {long}


def test_a_callback_that_raises_system_exit_ends_no_heartbeat(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    own, queue = HeartbeatThread(), Extender([False, True])
    lost, kept = heartbeat(30, queue, on_lost=sys.exit), heartbeat(30, queue, lease=held(lease_id="b"))
    own._heartbeats = {lost, kept}
    clock.now = 110
    own._send(queue, [lost, kept])
    assert (lost.lease.state.lost, own._heartbeats, kept.lost_at) == (True, {kept}, 140)
    assert caplog.messages == ["on_lost raised for lease 'job'"]


def test_a_thread_that_died_is_replaced() -> None:
    own, queue = HeartbeatThread(), Extender()
    own._thread = threading.Thread()
    own._thread.start()
    own._thread.join()
    own.add(heartbeat(30, queue, fresh=False))
    assert queue.called.wait(PATIENCE_S)
    own._heartbeats.clear()


def test_the_thread_wakes_for_a_lease_that_is_due_before_the_others() -> None:
    own, patient, hasty = HeartbeatThread(), Extender(), Extender()
    own.add(heartbeat(3000, patient))
    first = own._thread
    own.add(heartbeat(30, hasty, fresh=False))
    assert hasty.called.wait(PATIENCE_S)
    assert own._thread is first
    assert patient.asked == []
    own._heartbeats.clear()


def test_the_thread_ends_with_the_last_lease_and_starts_anew_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "_IDLE_S", 0.001)
    own, queue = HeartbeatThread(), Extender([False])
    for _ in range(2):
        queue.called.clear()
        queue.answers = [[False]]
        own.add(heartbeat(30, queue, fresh=False))
        thread = own._thread
        assert thread is not None
        assert thread.daemon
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert own._thread is None
        assert queue.called.is_set()


def test_a_forked_child_extends_none_of_its_parents_leases() -> None:
    own, queue = HeartbeatThreads(), Extender()
    parents = own.of(queue)
    own.reset()
    assert own.of(queue) is not parents


class Hanging(Extender):
    """A queue whose server does not answer until the test releases it."""

    def __init__(self) -> None:
        super().__init__(server="hangs")
        self.let_go = threading.Event()

    def extend_all(self, leases: Sequence[tuple[Lease, float | None]]) -> list[bool]:
        answer = super().extend_all(leases)
        assert self.let_go.wait(PATIENCE_S)
        return answer


def test_a_server_that_hangs_costs_no_lease_of_another() -> None:
    own, hanging, queue = HeartbeatThreads(), Hanging(), Extender()
    held_up, kept = heartbeat(30, hanging, fresh=False), heartbeat(30, queue, fresh=False, lease=held(lease_id="b"))
    own.add(held_up)
    assert hanging.called.wait(PATIENCE_S)
    own.add(kept)
    assert queue.called.wait(PATIENCE_S)
    assert not hanging.let_go.is_set()
    own.remove(kept)
    own.remove(held_up)
    hanging.let_go.set()


def test_queues_of_one_server_share_a_thread_that_is_forgotten_with_the_last_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heartbeats, "_IDLE_S", 0.001)
    own, one, other = HeartbeatThreads(), Extender([False]), Extender([False])
    assert own.of(one) is own.of(one) is own.of(other)
    for queue in (one, other):
        own.add(heartbeat(30, queue, fresh=False))
        thread = own.of(queue)._thread
        if thread is not None:
            thread.join(PATIENCE_S)
        assert queue.called.is_set()
    gc.collect()
    assert len(own._of) == 0


async def test_a_server_that_hangs_delays_no_heartbeat_of_the_task() -> None:
    own, let_go = HeartbeatTask(), asyncio.Event()

    class Hangs(AsyncExtender):
        async def extend_all(self, leases: Sequence[tuple[Lease, float | None]]) -> list[bool]:
            answer = await super().extend_all(leases)
            await let_go.wait()
            return answer

    hanging, queue = Hangs(), AsyncExtender()
    held_up, kept = heartbeat(30, hanging, fresh=False), heartbeat(30, queue, fresh=False, lease=held(lease_id="b"))
    async with asyncio.timeout(PATIENCE_S):
        own.add(held_up)
        await hanging.called.wait()
        own.add(kept)
        await queue.called.wait()
        assert hanging.inner.asked == [[("job", 30)]]
        own.remove(kept)
        own.remove(held_up)
        let_go.set()
        assert own._task is not None
        await own._task
    assert hanging.inner.asked == [[("job", 30)]]


@pytest.mark.parametrize("ends", [True, False], ids=["the task ends", "its loop does"])
def test_an_event_loop_is_forgotten_with_its_leases(*, ends: bool) -> None:
    async def hold() -> weakref.ref[Any]:
        kept = heartbeat(30, AsyncExtender(), fresh=False)
        aio.heartbeats().add(kept)
        await asyncio.sleep(0)
        aio.heartbeats().remove(kept)
        if ends:
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        return weakref.ref(asyncio.get_running_loop())

    loop = asyncio.run(hold())
    gc.collect()
    assert loop() is None


async def test_the_task_wakes_for_a_lease_that_is_due_before_the_others() -> None:
    own, patient, hasty = HeartbeatTask(), AsyncExtender(), AsyncExtender([False])
    slow = heartbeat(3000, patient)
    own.add(slow)
    task = own._task
    await asyncio.sleep(0)
    lost = asyncio.Event()
    async with asyncio.timeout(PATIENCE_S):
        own.add(heartbeat(30, hasty, fresh=False, on_lost=lambda _: lost.set()))
        await lost.wait()
    assert own._task is task
    assert patient.inner.asked == []
    assert own._heartbeats == {slow}
    own.remove(slow)
    assert task is not None
    await task


async def test_a_beat_on_asyncio_treats_answers_as_the_thread_does(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    own, queue = HeartbeatTask(), AsyncExtender([True, False], QueueUnavailable("gone"))
    kept, lost = heartbeat(30, queue), heartbeat(30, queue, lease=held(lease_id="b"))
    own._heartbeats = {kept, lost}
    clock.now = 112
    await own._send(queue, [kept, lost])
    assert own._heartbeats == {kept}
    assert (kept.lost_at, lost.lease.lost) == (142, True)
    clock.now = 122
    await own._send(queue, [kept])
    assert kept.next_at == 123
    assert "heartbeat of 1 leases failed: gone" in caplog.text


@pytest.mark.usefixtures("clock")
def test_a_lease_that_was_reported_lost_is_not_extended_by_a_late_answer() -> None:
    kept = heartbeat(30)
    kept.lease.state.lost = True
    settle_heartbeat(kept, True, 100)
    assert kept.over
    assert kept.lease.lost
