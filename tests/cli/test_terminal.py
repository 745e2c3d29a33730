"""The commands in a real (pseudo) terminal, where keys are pressed."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.core.leases import PATIENCE_S
from tests.servers.process import until

Rmq = Callable[..., Any]


class Terminal:
    """`rmq` on a pseudo terminal; `seen` is everything it has written so far."""

    def __init__(self, *arguments: str) -> None:
        self.mine, self.theirs = pty.openpty()
        os.set_blocking(self.mine, False)
        termios.tcsetwinsize(self.theirs, (30, 110))
        self.seen = ""
        self.before = termios.tcgetattr(self.theirs)
        environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rmq_cli", *arguments],
            stdin=self.theirs, stdout=self.theirs, stderr=self.theirs, env={**environment, "TERM": "xterm"},
        )  # fmt: skip

    def shows(self, text: str) -> None:
        """Wait until `text` was written."""
        until(lambda: text in self._read(), PATIENCE_S)

    def press(self, keys: str) -> None:
        os.write(self.mine, keys.encode())

    def ends(self) -> int:
        until(lambda: self._read() is not None and self.process.poll() is not None, PATIENCE_S)
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.mine)
        os.close(self.theirs)

    def _read(self) -> str:
        with suppress(BlockingIOError):
            self.seen += os.read(self.mine, 65536).decode(errors="replace")
        return self.seen


@pytest.fixture
def terminal(rmq: Rmq) -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        made.append(Terminal(*arguments))
        return made[-1]

    yield start
    for each in made:
        each.close()


def test_top_refreshes_until_q_is_pressed_and_restores_the_terminal(
    rmq: Rmq, terminal: Callable[..., Terminal]
) -> None:
    rmq("publish", "flights", "a")
    top = terminal("top", "--interval", "0.2")
    top.shows("flights")
    rmq("publish", "another", "b")
    top.shows("another")
    top.press("x")
    assert top.process.poll() is None
    top.press("q")
    assert top.ends() == 0
    assert termios.tcgetattr(top.theirs) == top.before


ALIKE = pytest.mark.nightly("cli/test_terminal.py::test_purging_prompts_and_obeys_the_answer")


@pytest.mark.parametrize(
    ("conditions", "answer", "left"),
    [
        ([], "n", 1),
        (["--text", "a"], "y", 0),
        pytest.param([], "y", 0, marks=ALIKE),
        pytest.param(["--text", "a"], "n", 1, marks=ALIKE),
    ],
)
def test_purging_prompts_and_obeys_the_answer(
    rmq: Rmq, terminal: Callable[..., Terminal], conditions: list[str], answer: str, left: int
) -> None:
    rmq("publish", "q", "a")
    rmq("configure", "q", "max_deliveries=1")
    rmq("consume", "q", "--", "false")
    purge = terminal("dlq", "purge", "q", *conditions)
    purge.shows("Delete 1 dead letter of q (leased)")
    assert "purged" not in purge.seen
    purge.press(f"{answer}\n")
    assert purge.ends() == (1 if left else 0)
    assert rmq("stats", "q", "--json").records[0]["dead"] == left


def test_a_payload_cannot_act_on_the_terminal(rmq: Rmq, terminal: Callable[..., Terminal]) -> None:
    rmq("publish", "q", "\x1b]0;owned\x07", "\x1b[2J")
    for command in (["peek", "q"], ["consume", "q"]):
        shown = terminal(*command)
        assert shown.ends() == 0
        assert "\\x1b]0;owned\\x07" in shown.seen
        assert "\x1b]0;owned" not in shown.seen
        assert "\x1b[2J" not in shown.seen


def test_publish_without_payloads_does_not_wait_for_keyboard_input(terminal: Callable[..., Terminal]) -> None:
    publish = terminal("publish", "q")
    assert publish.ends() == 2
    assert "no payload" in publish.seen


def test_a_name_like_that_of_another_queue_is_asked_about_before_it_becomes_a_queue(
    rmq: Rmq, terminal: Callable[..., Terminal]
) -> None:
    rmq("publish", "orders", "a")
    asked = terminal("publish", "ordres", "b")
    asked.shows("'ordres' is a new queue; did you mean 'orders'?")
    asked.press("n\r")
    assert asked.ends() == 1
    assert [each["queue"] for each in rmq("queues", "list", "--json").records] == ["orders"]
    assert terminal("publish", "ordres", "b", "--yes").ends() == 0
    assert terminal("publish", "ordres", "c").ends() == 0  # it is no new one any more
    assert terminal("publish", "invoices", "d").ends() == 0
    assert rmq("stats", "ordres", "--json").records[0]["ready"] == 2


def test_progress_is_gone_when_the_answer_comes(rmq: Rmq, terminal: Callable[..., Terminal]) -> None:
    rmq("publish", "q", "a")
    search = terminal("search", "q", "--text", "nothing")
    assert search.ends() == 0
    *_, line = search.seen.strip().split("\x1b[2K")
    assert line == "no message of q meets these conditions"
    assert "found 0" in search.seen
