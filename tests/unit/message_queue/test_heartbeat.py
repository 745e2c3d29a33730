"""The steps of a heartbeat; threads and tasks are tested only where they are the subject."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from rmq_core.compat.aio import TaskHeartbeat
from rmq_core.compat.config import HeartbeatSettings
from rmq_core.compat.heartbeat import Beat
from rmq_core.compat.io_mode import ASYNCIO
from rmq_core.compat.stored import Received
from rmq_core.compat.sync import ThreadHeartbeat, run
from rmq_core.events import QueueEvent
from tests.unit.message_queue.by_hand import Scripted, body, steps_of

RECEIVED = Received("x", "x", "job:7.abc")


class Renewals(Scripted):
    """A gateway that answers renewals as prepared; the last answer, or an empty list of them, ends the heartbeat."""

    def __init__(self, *answers: Any, on_failure: Callable[[], Any] | None = None) -> None:
        super().__init__()
        self.left, self.told = list(answers), list[QueueEvent]()
        self.body = body(self, told=self.told, heartbeat=HeartbeatSettings(0.001, on_failure))
        self.beat = Beat(self.body, RECEIVED, 0.001)

    def renew_message_lease(self, *_: object, is_interrupted: Any) -> Any:
        answer = self.left.pop(0)
        assert not is_interrupted.is_interrupted()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def run(self) -> list[str]:
        async def pause() -> bool:
            return not self.left

        run(self.beat.run(pause))
        return steps_of(self.told)


def test_each_renewal_emits_an_event() -> None:
    assert Renewals(True, True).run() == ["lease_renew/success"] * 2


def test_a_lost_lease_ends_the_heartbeat_and_calls_the_failure_callback() -> None:
    called: list[int] = []
    renewals = Renewals(True, False, True, on_failure=lambda: called.append(1))
    assert renewals.run() == ["lease_renew/success", "lease_renew_failed/skipped"]
    assert (called, renewals.left) == ([1], [True])


@pytest.mark.parametrize("answer", [OSError("away"), None, 1])
def test_a_renewal_that_raises_or_returns_no_bool_also_ends_the_heartbeat(answer: Any) -> None:
    called: list[int] = []
    renewals = Renewals(answer, True, on_failure=lambda: called.append(1))
    with pytest.warns(RuntimeWarning, match="could not be renewed"):
        assert renewals.run() == ["lease_renew_failed/failure"]
    assert called == [1]
    assert renewals.told[0].error is not None


def test_a_failure_after_the_end_of_the_heartbeat_is_ignored() -> None:
    called: list[int] = []
    renewals = Renewals(False, on_failure=lambda: called.append(1))

    def renew_last(*_: object, **__: object) -> bool:
        renewals.beat.over.set()
        return False

    renewals.renew_message_lease = renew_last  # type: ignore[method-assign]
    assert renewals.run() == []
    assert called == []


def test_a_callback_that_raises_is_warned_of() -> None:
    with pytest.warns(RuntimeWarning, match="on_heartbeat_failure raised ZeroDivisionError"):
        Renewals(False, on_failure=lambda: 1 // 0).run()


def test_an_async_callback_causes_a_warning_where_it_cannot_be_awaited() -> None:
    async def later() -> None:
        pass

    with pytest.warns(RuntimeWarning, match="on_heartbeat_failure raised TypeError"):
        Renewals(False, on_failure=later).run()


def test_without_an_interval_there_is_neither_thread_nor_task() -> None:
    before = {*threading.enumerate()}
    ThreadHeartbeat(body(Scripted()), RECEIVED).stop()
    asyncio.run(TaskHeartbeat(body(Scripted()), RECEIVED).stop())
    assert {*threading.enumerate()} <= before


def test_a_renewal_that_does_not_end_in_time_causes_a_warning() -> None:
    go_on, begun = threading.Event(), threading.Event()
    renewals = Renewals()

    def hang(*_: object, **__: object) -> bool:
        begun.set()
        return go_on.wait(10)

    renewals.renew_message_lease = hang  # type: ignore[method-assign]
    heartbeat = ThreadHeartbeat(renewals.body, RECEIVED)
    assert begun.wait(10)
    with pytest.warns(RuntimeWarning, match="did not stop in time"):
        heartbeat.stop()
    go_on.set()
    assert steps_of(renewals.told) == ["heartbeat_stop_timeout/failure"]


def test_a_task_is_cancelled_in_the_middle_of_a_renewal() -> None:
    renewals, begun = Renewals(), asyncio.Event()

    async def hang(*_: object, **__: object) -> bool:
        begun.set()
        return await asyncio.Event().wait()

    renewals.renew_message_lease = hang  # type: ignore[method-assign]
    renewals.body.io_mode = ASYNCIO

    async def main() -> None:
        heartbeat = TaskHeartbeat(renewals.body, RECEIVED)
        await asyncio.wait_for(begun.wait(), 10)
        await heartbeat.stop()
        assert heartbeat._task.done()

    asyncio.run(main())


def test_a_message_without_a_token_has_no_heartbeat_and_warns_once() -> None:
    queue = body(Scripted(), heartbeat=HeartbeatSettings(1, None))
    with pytest.warns(RuntimeWarning, match="no lease token"):
        ThreadHeartbeat(queue, Received("x", "x", None)).stop()
    ThreadHeartbeat(queue, Received("y", "y", None)).stop()
