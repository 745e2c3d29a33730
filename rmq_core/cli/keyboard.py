"""Single keys of a terminal, without Return."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from types import TracebackType
from typing import Any, Self

from rmq_core.interrupt_handler import Stopping

_LOOK_S = 0.2


class Keyboard:
    """Reads keys one by one while its block runs. Ignores keys unless both stdin and stdout are terminals."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        if sys.stdin.isatty() and sys.stdout.isatty():
            self._before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def waited(self, seconds: float, stopping: Stopping) -> bool:
        """Wait for `seconds`. Return True as soon as `q` is pressed or a signal asks to stop, else False."""
        if self._before is None:
            stopping.rest(seconds)
            return stopping.is_set()
        until = time.monotonic() + seconds
        while not stopping.is_set() and (left := until - time.monotonic()) > 0:
            readable, _, _ = select.select([sys.stdin], [], [], min(left, _LOOK_S))
            # Read without Python's buffer: `select` does not see a second key that is already buffered.
            if readable and b"q" in os.read(sys.stdin.fileno(), 64).lower():
                return True
        return stopping.is_set()
