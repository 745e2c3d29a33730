"""The table of the drills: a plugin that `tests/conftest.py` loads; `--drills-report=FILE` saves it.

A drill has the phases find, explain and repair. Commands and clicks are counted, seconds are measured and never
asserted: they are those of a script that knows where to look, without the time in which a person reads.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

PHASES = ("find", "explain", "repair")
HEAD = """\
# Drills

Made by `make drills`; do not edit. A number is how many commands or clicks a phase takes, and the seconds beside it are
how long a script needs for them: a person adds the time to read and to type. Typing into a field counts as a click.
"""
_drills: list[Drill] = []


@dataclass
class Drill:
    """One drill, in the terminal or in the console: `acts` and `seconds` by phase."""

    name: str
    where: str
    acts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PHASES, 0))
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    phase: str = "find"
    done: bool = False

    def act(self) -> None:
        """Count a command or a click."""
        self.acts[self.phase] += 1

    @contextmanager
    def doing(self, phase: str) -> Iterator[None]:
        """Measure the phase that the block performs."""
        self.phase, began = phase, time.monotonic()
        yield
        self.seconds[phase] += time.monotonic() - began
        self.done = phase == "repair"

    def row(self) -> str:
        """Return the drill as a row of the table."""
        cells = (f"{self.acts[phase]} ({self.seconds[phase]:.1f} s)" for phase in PHASES)
        return f"| {self.name} | {self.where} | {' | '.join(cells)} | {sum(self.seconds.values()):.1f} s |"


def start(name: str, where: str) -> Drill:
    """Return a new drill, which the table will have when it is repaired."""
    _drills.append(Drill(name, where))
    return _drills[-1]


def table() -> str:
    """Return the table in Markdown, in the order of the names."""
    rows = [drill.row() for drill in sorted(_drills, key=lambda each: (each.name, each.where)) if drill.done]
    head = "| drill | where | find | explain | repair | together |\n|---|---|---|---|---|---:|"
    return "\n".join([HEAD, head, *rows]) + "\n"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--drills-report", type=Path, help="the file in which to keep the table of the drills")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Under `pytest -n`: pass the drills of this process ..."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["drills"] = [asdict(drill) for drill in _drills]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """... to the process that saves them."""
    _drills.extend(Drill(**plain) for plain in getattr(node, "workeroutput", {}).get("drills", ()))


def pytest_terminal_summary(config: pytest.Config) -> None:
    """Save the table when a file is given."""
    file = config.getoption("drills_report")
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(table(), "utf-8")
