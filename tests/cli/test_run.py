from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.core.leases import PATIENCE_S

Rmq = Callable[..., Any]
HANDLERS = """
import asyncio, os, time

def show(message):
    print(message.payload, flush=True)

async def show_later(message):
    await asyncio.sleep(0)
    print("later", message.payload)

def refuse(message):
    raise ValueError("no")

def wait(message):
    print("began", flush=True)
    while not os.path.exists("told"):
        time.sleep(0.01)

class Shop:
    @staticmethod
    def sell(message):
        show(message)

constant = 7
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a module `handlers`."""
    (tmp_path / "handlers.py").write_text(HANDLERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "handlers", raising=False)
    return tmp_path


def test_a_function_of_the_current_directory_handles_each_message(rmq: Rmq, folder: Path) -> None:
    rmq("publish", "q", "one", "two")
    ran = rmq("run", "handlers:show", "--queue", "q", "--until-empty")
    assert (ran.code, ran.out, ran.err) == (0, "one\ntwo\n", "2 handled, 0 failed (0 dead), 0 lost\n")
    rmq("publish", "q", "three")
    assert rmq("run", "handlers:Shop.sell", "-q", "q", "--until-empty").out == "three\n"


def test_a_coroutine_function_runs_on_an_event_loop_with_the_settings_of_the_queue(rmq: Rmq, folder: Path) -> None:
    rmq("publish", "q", "one")
    ran = rmq("run", "handlers:show_later", "-q", "q", "--until-empty", "--concurrency", "2", "--json")
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "later one"
    assert '"handled": 1' in ran.out
    rmq("publish", "q", "two")
    ran = rmq("run", "handlers:constant.real", "-q", "q", "--until-empty")
    assert ran.code == 2
    assert "handler must be a function" in ran.err


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        ("handlers", "handler must be MODULE:FUNCTION, such as tasks:handle, not 'handlers'"),
        ("./handlers.py:show", "handler must be MODULE:FUNCTION"),
        ("nowhere:show", "handler: there is no module 'nowhere', neither in"),
        ("handlers:hide", "handler: the module 'handlers' has no 'hide'"),
    ],
)
def test_a_handler_that_does_not_exist_is_named_and_nothing_is_claimed(
    rmq: Rmq, folder: Path, handler: str, said: str
) -> None:
    rmq("publish", "q", "one")
    ran = rmq("run", handler, "-q", "q", "--until-empty")
    assert ran.code == 2
    assert said in ran.err
    assert rmq("peek", "q", "--json").records[0]["deliveries"] == 0


def test_a_module_that_lacks_another_module_is_not_taken_for_a_missing_one(rmq: Rmq, folder: Path) -> None:
    (folder / "broken_handlers.py").write_text("import no_such_module")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        rmq("run", "broken_handlers:show", "-q", "q")


@pytest.mark.parametrize("signals", [1, 2])
def test_the_exit_code_tells_whether_a_second_signal_came(rmq: Rmq, folder: Path, signals: int) -> None:
    rmq("publish", "q", "one")
    command = [sys.executable, "-m", "rmq_cli", "run", "handlers:wait", "-q", "q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"began\n"
        process.send_signal(signal.SIGTERM)
        if signals == 1:
            (folder / "told").touch()
        else:
            process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == (0 if signals == 1 else 130), said
    assert rmq("stats", "q", "--json").records[0]["ready"] == signals - 1
    assert (b"INFO queue 'q': the run ended: 1 handled" in said) == (signals == 1)
