"""The first Ctrl-C or SIGTERM asks a loop to stop; the second interrupts it."""

from __future__ import annotations

import signal
import time
from types import FrameType

_LOOK_S = 0.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """Handles SIGINT and SIGTERM of the process until `close`; `asked` is True after the first signal."""

    def __init__(self) -> None:
        self.asked = False
        self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}

    def rest(self, seconds: float) -> None:
        """Sleep for `seconds`; return early after a signal."""
        until = time.monotonic() + seconds
        while not self.asked and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_S))

    def close(self) -> None:
        """Restore the former signal handlers."""
        for number, before in self._before.items():
            signal.signal(number, before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
