"""Counts of the faults a run injected, for the summary at its end: a plugin that `tests/conftest.py` loads.

With `--faults-report`, a run without a failure keeps them as a page beside those of the orchestrators.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

faults: Counter[str] = Counter()
PAGE = """\
# Faults in the core and in Spark

How often `make faults` has done what to queues of every discipline, and to Spark's sources and sinks; made by it, do
not edit. Each of these belongs to a test that counts messages afterwards. All {passed:,} tests passed: no message was
settled by somebody who no longer held it, none was left in a lease that nobody works on, and none was lost, but for
those that only a primary had which was killed before a replica heard of them. These are counted here, too; `Durability`
is for them.

| fault, or what it led to | times |
|---|---:|
{rows}
"""


def count(fault: str, times: int = 1) -> None:
    """Note that a fault was injected."""
    faults[fault] += times


def table() -> list[str]:
    """Return one line for each kind of fault."""
    return [f"{times:>8,}  {fault}" for fault, times in sorted(faults.items())]


def page(passed: int) -> str:
    """Return the counts as a page."""
    rows = [f"| {fault} | {times:,} |" for fault, times in sorted(faults.items())]
    return PAGE.format(passed=passed, rows="\n".join(rows))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Under `pytest -n`: pass the counts of this process ..."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["faults"] = {f"{fault}": times for fault, times in faults.items()}  # plain text: some are enums


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """... to the process that prints the summary."""
    faults.update(getattr(node, "workeroutput", {}).get("faults", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Print how many faults of which kind were injected; save that when a folder is given and all tests passed."""
    if faults:
        terminalreporter.section("faults injected")
        for line in table():
            terminalreporter.write_line(line)
    folder = config.getoption("faults_report")
    if faults and folder is not None and not exitstatus:
        (folder / "faults.md").write_text(page(len(terminalreporter.stats["passed"])), "utf-8")
