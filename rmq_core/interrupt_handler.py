"""Stop a consumer between two messages: by signals, or by an event that other code sets."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Protocol

from rmq_core.errors import ConfigurationError

_USUAL = tuple(signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if name in signal.Signals.__members__)
_UNABLE = "cannot handle {}: make the handler in the main thread, for signals that can be handled ({})"


class BaseGracefulInterruptHandler(ABC):
    """Decides when a queue stops waiting for messages. The queue polls it several times a second."""

    @abstractmethod
    def is_interrupted(self) -> bool:
        """Return whether to stop."""


class GracefulInterruptHandler(BaseGracefulInterruptHandler):
    """Handles signals of the process: the first requests a stop; a second has the effect it has without this handler.

    Create it in the main thread. Raises ValueError, and changes nothing, when a signal already has a handler, such as
    another GracefulInterruptHandler. A signal that the process ignores, as under `nohup` or in a shell's background,
    stays ignored. A forked child calls `reset()` on the handler that it inherited before it creates its own.
    """

    def __init__(self, verbose: bool = True, signals: Iterable[signal.Signals] = _USUAL) -> None:
        if not isinstance(verbose, bool):
            raise TypeError(f"'verbose' must be True or False, not {type(verbose).__name__}")
        if isinstance(signals, str | bytes) or not isinstance(signals, Iterable):
            raise TypeError(f"'signals' must be several signals, for example (signal.SIGTERM,), not {signals!r}")
        chosen = tuple(signals)
        if not all(isinstance(number, signal.Signals) for number in chosen):
            raise TypeError(f"'signals' must hold signals such as signal.SIGTERM, not {chosen!r}")
        if not chosen:
            raise ConfigurationError("'signals' is empty: a handler without signals is never interrupted")
        before = {number: _free(number) for number in chosen if signal.getsignal(number) != signal.SIG_IGN}
        self._verbose, self._interrupted = verbose, False
        self._before: dict[int, Any] = {}
        for number, disposition in before.items():
            try:
                signal.signal(number, self._note)
            except (ValueError, OSError) as error:
                self.reset()
                raise ConfigurationError(_UNABLE.format(number.name, error)) from error
            self._before[number] = disposition

    def is_interrupted(self) -> bool:
        """Return whether a signal arrived."""
        return self._interrupted

    def reset(self) -> None:
        """Restore the previous handlers of the signals; repeated calls do nothing. Call it only in the main thread."""
        while self._before:
            number, before = self._before.popitem()
            signal.signal(number, before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._interrupted:
            self._act(number, frame)
            return
        self._interrupted = True
        if self._verbose:
            with contextlib.suppress(Exception):  # the signal may have interrupted a write, which is not reentrant
                print(f"Received signal: {signal.strsignal(number)}", file=sys.stderr)  # noqa: T201  asked for

    def _act(self, number: int, frame: FrameType | None) -> None:
        before = self._before.get(number, signal.SIG_DFL)
        signal.signal(number, before)
        if callable(before):
            before(number, frame)
        else:
            os.kill(os.getpid(), number)


class Stop(Protocol):
    """An object that reports whether to stop, such as threading.Event."""

    def is_set(self) -> bool:
        """Return whether to stop."""
        ...  # pragma: no cover


class EventDrivenInterruptHandler(BaseGracefulInterruptHandler):
    """Stops once the owner of the signals, such as an orchestrator or a web server, sets `stop_event`."""

    def __init__(self, stop_event: Stop) -> None:
        if not callable(getattr(stop_event, "is_set", None)):
            raise TypeError(f"'stop_event' must have is_set(), as threading.Event has, not {type(stop_event).__name__}")
        self._stop = stop_event

    def is_interrupted(self) -> bool:
        """Return whether the event is set."""
        return self._stop.is_set()


def _interrupt() -> None:
    raise KeyboardInterrupt


class Stopping:
    """Handles SIGINT and SIGTERM of the process until `close`: the first asks a loop to stop, later ones call `again`.

    Create and close it in the main thread. again: by default it raises KeyboardInterrupt there, wherever the loop is.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM)
    _LOOK_S = 0.2

    def __init__(self, again: Callable[[], object] = _interrupt) -> None:
        self._asked, self._again = False, again
        self._before = {number: signal.signal(number, self._note) for number in self._SIGNALS}

    def is_set(self) -> bool:
        """Return whether a signal arrived."""
        return self._asked

    def rest(self, seconds: float) -> None:
        """Sleep for `seconds`; return early after a signal."""
        until = time.monotonic() + seconds
        while not self._asked and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, self._LOOK_S))

    def close(self) -> None:
        """Restore the former signal handlers."""
        for number, before in self._before.items():
            signal.signal(number, before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._asked:
            self._again()
        self._asked = True


def _free(number: signal.Signals) -> Any:
    """Return the present disposition of a signal; raise ConfigurationError when the signal has a handler."""
    before = signal.getsignal(number)
    if isinstance(getattr(before, "__self__", None), GracefulInterruptHandler):
        raise ConfigurationError(f"{number.name} is owned by another GracefulInterruptHandler; share that one")
    if before not in (signal.SIG_DFL, signal.default_int_handler):
        raise ConfigurationError(f"{number.name} has a handler; pass 'signals' without it, or set that handler later")
    return before
