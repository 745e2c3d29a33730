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
from rmq_core.compat.stored import Received
from rmq_core.compat.sync import ThreadHeartbeat
from rmq_core.events import QueueEvent
from rmq_core.queue.twin import stepped
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

        stepped(self.beat.run(pause))
        return steps_of(self.told)


def test_a_failure_after_the_end_of_the_heartbeat_is_ignored() -> None:
    called: list[int] = []
    renewals = Renewals(False, on_failure=lambda: called.append(1))

    def renew_last(*_: object, **__: object) -> bool:
        renewals.beat.over.set()
        return False

    renewals.renew_message_lease = renew_last  # type: ignore[method-assign]
    assert renewals.run() == []
    assert called == []


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


def test_a_message_without_a_token_has_no_heartbeat_and_warns_once() -> None:
    queue = body(Scripted(), heartbeat=HeartbeatSettings(1, None))
    with pytest.warns(RuntimeWarning, match="no lease token"):
        ThreadHeartbeat(queue, Received("x", "x", None)).stop()
    ThreadHeartbeat(queue, Received("y", "y", None)).stop()
