"""Stopping on SIGTERM, only on request: a library that installs signal handlers by itself breaks the application."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from rmq_core.errors import ConfigurationError


class Stoppable(Protocol):
    """A consumer, blocking or asyncio."""

    def stop(self) -> None:
        """Begin no new read."""


@contextmanager
def stop_on_signals(*consumers: Stoppable, signals: tuple[signal.Signals, ...] = (signal.SIGTERM,)) -> Iterator[None]:
    """While the block runs, stop these consumers on a signal; afterwards restore the former handlers.

    Raises ConfigurationError outside the main thread, where Python installs no signal handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ConfigurationError("enter stop_on_signals in the main thread; in other threads, call stop() yourself")

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        for consumer in consumers:
            consumer.stop()

    former = {number: signal.signal(number, stop) for number in signals}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
