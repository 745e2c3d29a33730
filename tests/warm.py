"""Runs programs in forks of a process that has imported what they need: most of their time would be imports.

`python -W error -m tests.warm MODULE...` imports the modules, and runs a program for each line of its standard input.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Ended(NamedTuple):
    """How a program ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


class Warm:
    """A process that has imported some modules."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, program: Path) -> Ended:
        """Run a program in its folder until it ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(str(program)), file=self._process.stdin, flush=True)
        code = int(self._process.stdout.readline())
        return Ended(code, *(program.with_suffix(f".{name}").read_text("utf-8") for name in ("stdout", "stderr")))


@contextmanager
def warm(*modules: str) -> Iterator[Warm]:
    """Import these modules, and run programs until the end of the block."""
    command = [sys.executable, "-W", "error", "-m", "tests.warm", *modules]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Warm(process)
        assert process.stdin is not None
        process.stdin.close()


def serve(modules: list[str]) -> Path | None:
    """Fork for each program; return its path in the process that runs it, and None at the end."""
    for module in modules:
        import_module(module)
    gc.freeze()  # a collection in a fork would copy all of it
    for line in sys.stdin:
        program = Path(json.loads(line))
        if not (child := os.fork()):
            return program
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return None


if __name__ == "__main__" and (program := serve(sys.argv[1:])):
    os.chdir(program.parent)
    for number, name in ((0, os.devnull), (1, program.with_suffix(".stdout")), (2, program.with_suffix(".stderr"))):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
    signal.alarm(600)  # a program that hangs ends its test
    sys.argv = [str(program)]
    sys.path[0] = str(program.parent)
    runpy.run_path(str(program), run_name="__main__")
