"""The effects of faults on the runs of an orchestrator: a page for each, printed at the end and saved by
`--faults-report`.

A plugin for pytest that `tests/conftest.py` loads; tests fill a `page`.

A cell is one round, a fault that hit one way of working: its counts, or the reason why the fault cannot occur. A count
that must be zero and is not makes the cell a failure. A figure is a measured number and its bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest


@dataclass(frozen=True)
class Cell:
    """`counts` by name, in the order in which they are shown; none, and a `reason`, where the fault cannot occur."""

    fault: str
    mode: str
    counts: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class Figure:
    """A measured number as it is to be read, what it should be, and whether it is."""

    name: str
    reached: str
    bound: str
    met: bool


@dataclass
class Page:
    """A report, saved as `name`.md. `zeros`: the counts that must be 0.

    `head` is its beginning, `key` explains the counts, `row` and `column` say what faults and modes are.
    """

    name: str
    head: str
    key: str
    zeros: tuple[str, ...]
    cells: list[Cell] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    row: str = "fault"
    column: str = "mode"

    @classmethod
    def made_of(cls, plain: dict[str, Any]) -> Self:
        """The page that another process sent as `asdict`."""
        cells = [Cell(**cell) for cell in plain["cells"]]
        figures = [Figure(**figure) for figure in plain["figures"]]
        return cls(**{**plain, "zeros": tuple(plain["zeros"]), "cells": cells, "figures": figures})

    def wrong(self, cell: Cell) -> dict[str, float]:
        """Return the counts of a cell that must be 0 and are not."""
        return {name: count for name, count in cell.counts.items() if name in self.zeros and count}

    def lines(self) -> Iterator[str]:
        """Return the page in Markdown."""
        yield self.head
        if self.cells:
            yield from self._matrix()
            yield from self._counts()
        if self.figures:
            yield from self._numbers()

    def _matrix(self) -> Iterator[str]:
        modes = list(dict.fromkeys(cell.mode for cell in self.cells))
        yield f"| | {' | '.join(modes)} |"
        yield f"|---|{'---|' * len(modes)}"
        for fault in dict.fromkeys(cell.fault for cell in self.cells):
            found = {cell.mode: cell for cell in self.cells if cell.fault == fault}
            yield f"| {fault} | {' | '.join(self._mark(found.get(mode)) for mode in modes)} |"
        yield ""
        reasons = dict.fromkeys(f"n/a, {cell.fault}, {cell.mode}: {cell.reason}" for cell in self.cells if cell.reason)
        yield from (f"- {reason}" for reason in reasons)
        yield from [""] * bool(reasons)

    def _mark(self, cell: Cell | None) -> str:
        if cell is None:
            return "not tried"
        if cell.reason:
            return "n/a"
        wrong = ", ".join(f"{count} {name}" for name, count in self.wrong(cell).items())
        return f"✗ {wrong}" if wrong else "✓"

    def _counts(self) -> Iterator[str]:
        names = list(dict.fromkeys(name for cell in self.cells for name in cell.counts))
        yield f"## What was counted\n\n{self.key}"
        yield f"| {self.row} | {self.column} | {' | '.join(names)} |"
        yield f"|---|---|{'---:|' * len(names)}"
        for cell in self.cells:
            if not cell.reason:
                counts = (f"{cell.counts[name]:,}" if name in cell.counts else "" for name in names)
                yield f"| {cell.fault} | {cell.mode} | {' | '.join(counts)} |"
        yield ""

    def _numbers(self) -> Iterator[str]:
        yield "## Numbers\n"
        yield "| | reached | bound | met |"
        yield "|---|---|---|---|"
        for figure in self.figures:
            yield f"| {figure.name} | {figure.reached} | {figure.bound} | {'yes' if figure.met else '**no**'} |"
        yield ""


_pages: list[Page] = []


def page(name: str, head: str, key: str, zeros: tuple[str, ...], **words: str) -> Page:
    """Return a new page, which tests fill."""
    _pages.append(Page(name, head, key, zeros, **words))
    return _pages[-1]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--faults-report", type=Path, help="the folder in which to keep what faults did to orchestrators")


def pytest_configure(config: pytest.Config) -> None:
    """Create the folder, in which other plugins also save their pages."""
    if folder := config.getoption("faults_report"):
        folder.mkdir(parents=True, exist_ok=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Under `pytest -n`: pass the counts of this process ..."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["fault pages"] = [asdict(filled) for filled in _filled()]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """... to the process that prints them."""
    _pages.extend(Page.made_of(plain) for plain in getattr(node, "workeroutput", {}).get("fault pages", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the pages that were filled; save them when a folder is given."""
    for filled in _filled():
        text = "\n".join(filled.lines()).rstrip() + "\n"
        terminalreporter.section(filled.name)
        terminalreporter.write_line(text)
        folder = config.getoption("faults_report")
        if folder is not None:
            (folder / f"{filled.name}.md").write_text(text, "utf-8")


def _filled() -> list[Page]:
    return [one for one in _pages if one.cells or one.figures]
