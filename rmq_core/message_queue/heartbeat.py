"""Renewing the lease of a message while its handler runs.

One thread or task a message: a gateway may block for as long as it likes without keeping other leases from being
renewed, and the task sees the context of its handler. The first failed renewal ends the heartbeat.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from rmq_core.errors import GatewayContractError
from rmq_core.events import EventOperation, EventOutcome
from rmq_core.interrupt_handler import BaseGracefulInterruptHandler, EventDrivenInterruptHandler
from rmq_core.message_queue import checks
from rmq_core.message_queue.notices import warn
from rmq_core.message_queue.steps import Step, Steps, run, run_async

_log = logging.getLogger("rmq")


class Beat:
    """What a heartbeat does. `renew` takes the handler that says it is over; `tell` makes the steps of an event."""

    def __init__(
        self,
        interval: float,
        renew: Callable[[BaseGracefulInterruptHandler], Any],
        tell: Callable[..., Iterable[Step]],
        on_failure: Callable[[], Any] | None,
    ) -> None:
        self.interval, self.over, self.tell = interval, threading.Event(), tell
        self._renew, self._on_failure = renew, on_failure
        self._handler = EventDrivenInterruptHandler(self.over)

    @property
    def stop_s(self) -> float:
        """For how long whoever ends it waits for a renewal under way."""
        return max(2 * self.interval, 0.1)

    def steps(self, pause: Callable[[], Any]) -> Steps[None]:
        """Renew after each `pause` until that returns True or a renewal fails."""
        while not (yield pause):
            try:
                renewed = yield partial(self._renew, self._handler)
                if not isinstance(renewed, bool):
                    checks.dispose(renewed)
                    raise GatewayContractError(  # noqa: TRY301  a failed renewal like any other
                        f"gateway.renew_message_lease() must return bool, not {type(renewed).__name__}"
                    )
            except Exception as error:  # noqa: BLE001  told to all who asked; the message expires if nobody acts
                yield from self._failed(error)
                return
            if self.over.is_set():
                return
            if not renewed:
                yield from self._failed(None)
                return
            yield from self.tell(EventOperation.LEASE_RENEW)

    def _failed(self, error: Exception | None) -> Steps[None]:
        if self.over.is_set():
            return
        if error is None:
            yield from self.tell(EventOperation.LEASE_RENEW_FAILED, EventOutcome.SKIPPED)
        else:
            _log.error("a lease could not be renewed", exc_info=error)
            yield from self.tell(EventOperation.LEASE_RENEW_FAILED, EventOutcome.FAILURE, error=error)
            warn(f"a lease could not be renewed ({type(error).__name__}); its message will be delivered again")
        if self._on_failure is not None and not self.over.is_set():
            try:
                checks.plain("on_heartbeat_failure", (yield self._on_failure))
            except Exception as raised:  # noqa: BLE001  the callback's error is not the heartbeat's
                _log.exception("on_heartbeat_failure raised")
                warn(f"on_heartbeat_failure raised {type(raised).__name__}")

    def late(self) -> Steps[None]:
        """A renewal under way did not end in time."""
        _log.warning("the heartbeat did not stop within %s s; it may renew its lease once more", self.stop_s)
        yield from self.tell(EventOperation.HEARTBEAT_STOP_TIMEOUT, EventOutcome.FAILURE)
        warn("the heartbeat did not stop in time; it may renew its lease once more")


class Ending:
    """A heartbeat that can be told to end; None for none."""

    def __init__(self, beat: Beat | None) -> None:
        self._beat = beat

    def end(self) -> None:
        """From here on its message is being settled: it renews no more, and a failure is nobody's business."""
        if self._beat is not None:
            self._beat.over.set()


class Heartbeat(Ending):
    """A beat in a thread."""

    def __init__(self, beat: Beat | None) -> None:
        super().__init__(beat)
        if beat is not None:
            pause = partial(beat.over.wait, beat.interval)
            steps = beat.steps(pause)
            self._thread = threading.Thread(target=partial(run, steps), name="rmq-lease-heartbeat", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End it, and wait for a renewal under way, but not for long."""
        self.end()
        if self._beat is not None:
            self._thread.join(self._beat.stop_s)
            if self._thread.is_alive():
                run(self._beat.late())


class AsyncHeartbeat(Ending):
    """A beat in a task."""

    def __init__(self, beat: Beat | None) -> None:
        super().__init__(beat)
        if beat is not None:
            loop, steps = asyncio.get_running_loop(), beat.steps(partial(_pause, beat))
            self._task = loop.create_task(run_async(steps), name="rmq-lease-heartbeat")

    async def stop(self) -> None:
        """End it, a renewal under way too; one that cannot be cancelled is not waited for for long."""
        self.end()
        if self._beat is not None:
            self._task.cancel()
            done, _ = await asyncio.wait({self._task}, timeout=self._beat.stop_s)
            if not done:
                await run_async(self._beat.late())


async def _pause(beat: Beat) -> bool:
    await asyncio.sleep(beat.interval)
    return beat.over.is_set()
