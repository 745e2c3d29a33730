"""`python -m benchmarks.against COMMIT`: compare this tree with another commit, in alternation on one server.

Each tree runs in a process of its own, and their slices alternate. The figure is the median of the ratios of
neighbouring slices, in processor time of client and server together: above 1, this tree needs less than the other. The
column `control` compares the other commit with itself: its distance from 1 is noise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks import cores
from benchmarks.figures import Spread
from tests.servers import Server

HERE = Path(__file__).parents[1]
SIDES = ("other", "this", "control")


class Side:
    """A tree, in a process that runs the slice whose name it receives."""

    def __init__(self, tree: Path, server: Server, at: int) -> None:
        environment = os.environ | {"PYTHONPATH": str(tree)}
        worker = HERE / "benchmarks" / "against_worker.py"
        command = [sys.executable, str(worker), str(server.port), str(server.process.pid), str(at)]
        self.process = subprocess.Popen(
            command, cwd=tree, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.names: list[str] = self._answer()

    def run(self, name: str) -> float:
        """Run a slice; return its seconds of processor time, of client and server together."""
        if self.process.stdin is None:
            raise RuntimeError("the process has no stdin")
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        taken: float = self._answer()
        return taken

    def close(self) -> None:
        self.process.communicate()

    def _answer(self) -> Any:
        if self.process.stdout is None or not (line := self.process.stdout.readline()):
            raise RuntimeError("a worker process ended; its error is printed above")
        return json.loads(line)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--servers", nargs="*", default=["7.0", "8.6"])
    given = parser.parse_args()
    with checked_out(given.commit) as other:
        for server in given.servers:
            _compare(other, server, given.rounds)


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Yield a folder with the files of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", commit], cwd=HERE, check=True, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", folder], check=True, input=archive.stdout)
        yield Path(folder)


def _compare(other: Path, version: str, rounds: int) -> None:
    with cores.server(version) as server, ExitStack() as stack:
        sides = {name: Side(HERE if name == "this" else other, server, at) for at, name in enumerate(SIDES)}
        for side in sides.values():
            stack.callback(side.close)
        cores.apart(server.process.pid, [side.process.pid for side in sides.values()])
        print(f"\n{'Redis ' + version:32}{'this':>24}{'control':>24}")
        for name in sides["this"].names:
            ratios: dict[str, list[float]] = {"this": [], "control": []}
            for _ in range(rounds + 1):  # the first one warms up
                taken = {each: side.run(name) for each, side in sides.items()}
                for each, found in ratios.items():
                    found.append(taken["other"] / taken[each])
            shown = [_shown(Spread.of(found[1:])) for found in ratios.values()]
            print(f"{name:32}{shown[0]:>24}{shown[1]:>24}", flush=True)


def _shown(spread: Spread) -> str:
    return f"{spread.median:.3f} [{spread.low:.3f}, {spread.high:.3f}]"


if __name__ == "__main__":
    main()
