"""Counts of the faults a run injected, for the summary at its end: a plugin that `tests/conftest.py` loads."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

faults: Counter[str] = Counter()


def count(fault: str, times: int = 1) -> None:
    """Note that a fault was injected."""
    faults[fault] += times


def table() -> list[str]:
    """One line for each kind of fault."""
    return [f"{times:>8,}  {fault}" for fault, times in sorted(faults.items())]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Under `pytest -n`: hand over what this process counted ..."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["faults"] = {f"{fault}": times for fault, times in faults.items()}  # plain text: some are enums


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """... to the process that prints the summary."""
    faults.update(getattr(node, "workeroutput", {}).get("faults", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many faults of which kind were injected."""
    if faults:
        terminalreporter.section("faults injected")
        for line in table():
            terminalreporter.write_line(line)
