from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rmq_core import ConfigurationError
from rmq_core.interrupt_handler import EventDrivenInterruptHandler, GracefulInterruptHandler

USR1, USR2 = signal.SIGUSR1, signal.SIGUSR2


@pytest.fixture
def handler() -> Iterator[GracefulInterruptHandler]:
    made = GracefulInterruptHandler(verbose=False, signals=[USR1])
    yield made
    made.reset()


def test_a_signal_that_the_process_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        handler = GracefulInterruptHandler(verbose=False, signals=(signal.SIGUSR1, signal.SIGHUP))
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        handler.reset()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_handler_that_cannot_be_created_takes_no_signals() -> None:
    with pytest.raises(ConfigurationError, match="SIGKILL"):
        GracefulInterruptHandler(signals=[USR1, signal.SIGKILL])
    assert signal.getsignal(USR1) == signal.SIG_DFL


def test_a_set_event_interrupts() -> None:
    stop = threading.Event()
    made = EventDrivenInterruptHandler(stop)
    assert not made.is_interrupted()
    stop.set()
    assert made.is_interrupted()


@pytest.mark.parametrize("stop", [None, True, lambda: True])
def test_the_event_must_be_a_threading_event(stop: Any) -> None:
    with pytest.raises(TypeError, match="stop_event"):
        EventDrivenInterruptHandler(stop)
