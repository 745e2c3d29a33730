"""`queue.run(handler)` of an asyncio queue: its workers are tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from rmq_core.interrupt_handler import Stopping
from rmq_core.messages import Lease
from rmq_core.queue.running import PAUSE_S, Abandoned, Run
from rmq_core.reports import RunReport


class AsyncRun(Run):
    """A run of an asyncio queue: each worker is a task."""

    asynchronous = True
    interruptions = (KeyboardInterrupt, Abandoned, asyncio.CancelledError)

    async def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return await function(*args, **options)

    async def pause(self) -> None:
        await asyncio.sleep(PAUSE_S)

    def heartbeats(self, lease: Lease) -> AbstractAsyncContextManager[object]:
        held: AbstractAsyncContextManager[object] = self._hold(lease, self.options.lease, fresh=True)
        return held

    def blames(self, error: BaseException) -> bool:
        if isinstance(error, asyncio.CancelledError):  # of a task of the handler's own, unless this one is cancelled
            task = asyncio.current_task()
            return task is not None and not task.cancelling()
        return super().blames(error)

    async def run(self) -> RunReport:
        """Return when all workers have ended. Raise the first error of one, or KeyboardInterrupt."""
        loop = asyncio.get_running_loop()
        with self.stopping(partial(Stopping, lambda: loop.call_soon_threadsafe(self._interrupt))):
            self._workers = [loop.create_task(self.work()) for _ in range(self.options.concurrency)]
            try:
                await asyncio.wait(self._workers, return_when=asyncio.FIRST_EXCEPTION)
                self._ending = True
                await asyncio.wait(self._workers)
            finally:
                self._cancel()
                await asyncio.gather(*self._workers, return_exceptions=True)
            if self._interrupted:
                raise KeyboardInterrupt
            for worker in self._workers:
                worker.result()
        return self.report

    def _interrupt(self) -> None:
        self._interrupted = True
        self._cancel()

    def _cancel(self) -> None:
        for worker in self._workers:
            worker.cancel()
