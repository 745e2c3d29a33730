"""Signals and other interrupts: the handler of a signal, the effect of a second one, how a waiting consumer ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rmq_core.interrupt_handler import BaseGracefulInterruptHandler, GracefulInterruptHandler
from tests.core.redis_message_queue.behind import PATIENCE_S, in_hand, waiting
from tests.core.redis_message_queue.handlers import handle
from tests.core.redis_message_queue.worlds import World

QUIET: dict[str, Any] = {"verbose": False, "signals": (signal.SIGUSR1,)}


@pytest.fixture
def handler() -> Iterator[GracefulInterruptHandler]:
    """A handler that takes SIGUSR1 and releases it at the end of the test."""
    made = GracefulInterruptHandler(**QUIET)
    yield made
    made.reset()


def test_a_signal_has_one_owner(handler: GracefulInterruptHandler) -> None:
    with pytest.raises(ValueError, match="SIGUSR1"):
        GracefulInterruptHandler(**QUIET)


def test_an_existing_signal_handler_is_not_replaced() -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with pytest.raises(ValueError, match="SIGUSR1"):
            GracefulInterruptHandler(**QUIET)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("usual_signals")
def test_a_second_interrupt_from_the_keyboard_is_a_keyboard_interrupt() -> None:
    handler = GracefulInterruptHandler(verbose=False, signals=[signal.SIGINT])
    try:
        signal.raise_signal(signal.SIGINT)
        assert handler.is_interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        handler.reset()


@pytest.mark.parametrize(
    "options",
    [{"verbose": 1}, {"signals": "SIGINT"}, {"signals": signal.SIGINT}, {"signals": [15]}],
    ids=["verbose", "text", "single", "number"],
)
def test_a_handler_refuses_arguments_of_a_wrong_type(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(options))):
        GracefulInterruptHandler(**options)


@pytest.mark.parametrize("signals", [(), (signal.SIGKILL,)], ids=["none", "SIGKILL"])
def test_a_handler_refuses_signals_that_cannot_be_caught(signals: tuple[signal.Signals, ...]) -> None:
    with pytest.raises(ValueError, match=r"[Ss]ignal"):
        GracefulInterruptHandler(signals=signals)


def test_a_handler_belongs_to_the_main_thread() -> None:
    caught: list[Exception] = []

    def build() -> None:
        try:
            GracefulInterruptHandler(**QUIET)
        except ValueError as error:
            caught.append(error)

    thread = threading.Thread(target=build)
    thread.start()
    thread.join()
    assert "main thread" in str(caught[0])


def script(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=300, check=False
    )


def test_a_second_signal_ends_the_process_as_without_a_handler() -> None:
    ended = script("""
        import os, signal
        from rmq_core.interrupt_handler import GracefulInterruptHandler
        handler = GracefulInterruptHandler(verbose=False)
        os.kill(os.getpid(), signal.SIGTERM)
        print(handler.is_interrupted(), flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
        print("survived", flush=True)
    """)
    assert (ended.returncode, ended.stdout) == (-signal.SIGTERM, "True\n")


def test_a_forked_child_makes_its_own_handler_after_resetting_the_inherited_one() -> None:
    ended = script("""
        import os, signal
        from rmq_core.interrupt_handler import GracefulInterruptHandler
        inherited = GracefulInterruptHandler(verbose=False)
        child = os.fork()
        if child == 0:
            try:
                GracefulInterruptHandler(verbose=False)
            except ValueError:
                inherited.reset()
                own = GracefulInterruptHandler(verbose=False)
                os.kill(os.getpid(), signal.SIGTERM)
                os._exit(7 if own.is_interrupted() and not inherited.is_interrupted() else 1)
            os._exit(2)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), inherited.is_interrupted())
    """)
    assert ended.stdout == "7 False\n", ended.stderr


class Switch(BaseGracefulInterruptHandler):
    """A custom handler."""

    def __init__(self) -> None:
        self.on = threading.Event()

    def is_interrupted(self) -> bool:
        return self.on.is_set()


def test_an_interrupted_queue_takes_nothing_more(world: World) -> None:
    switch = Switch()
    queue = world.queue(interrupt=switch)
    queue.publish("x")
    switch.on.set()
    assert handle(queue) is None
    assert (waiting(world), in_hand(world)) == (["x"], 0)


def test_an_interrupt_ends_a_wait_soon(world: World) -> None:
    switch = Switch()
    queue = world.queue(gateway=world.gateway(interrupt=switch, message_wait_interval_seconds=900))
    consumer = world.in_background(handle, queue)
    time.sleep(0.2)
    switch.on.set()
    assert consumer.result(PATIENCE_S) is None


def test_an_interrupt_lets_the_current_message_finish(world: World) -> None:
    switch = Switch()
    queue = world.queue(interrupt=switch, enable_completed_queue=True)
    queue.publish("x")
    with queue.process_message() as message:
        switch.on.set()
        assert message == "x"
    assert in_hand(world) == 0


def test_a_gateway_takes_the_handler_for_its_queue(world: World) -> None:
    switch = Switch()
    gateway = world.gateway(interrupt=switch)
    queue = world.queue(gateway=gateway)
    queue.publish("x")
    switch.on.set()
    assert handle(queue) is None
    assert waiting(world) == ["x"]


def test_a_signal_ends_a_consumer_after_its_message(redis_url: str) -> None:
    ended = script(f"""
        import os, signal
        from redis import Redis
        from rmq_core import RedisMessageQueue
        from rmq_core.interrupt_handler import GracefulInterruptHandler
        interrupt = GracefulInterruptHandler(verbose=False)
        client = Redis.from_url({redis_url!r}, decode_responses=True)
        queue = RedisMessageQueue("q", client=client, interrupt=interrupt)
        for text in "abc":
            queue.publish(text)
        while not interrupt.is_interrupted():
            with queue.process_message() as message:
                if message == "b":
                    os.kill(os.getpid(), signal.SIGTERM)
                print(message)
        client.close()
    """)
    assert (ended.returncode, ended.stdout) == (0, "a\nb\n"), ended.stderr
