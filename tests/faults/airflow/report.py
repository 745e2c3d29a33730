"""Prints the matrix of what faults cost in Airflow, and keeps it once it is complete; `tests/conftest.py` loads it.

The folder that keeps it is that of `--faults-report`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

RECORD = "airflow-faults"
_played: dict[str, tuple[Mapping[str, Any], float]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the rounds, also those that another process of `pytest -n` played."""
    for name, value in report.user_properties if report.when == "call" else ():
        if name == RECORD:
            fault, counts, seconds = value  # type: ignore[misc]  # pytest takes properties for plain objects
            _played[fault] = counts, seconds


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table, and save the report."""
    if not _played:
        return
    from tests.faults.airflow.matrix import Matrix  # imported late, because it imports much

    matrix = Matrix(_played)
    terminalreporter.section("what faults cost in Airflow")
    for line in matrix.table():
        terminalreporter.write_line(line)
    folder = config.getoption("faults_report")
    if folder is not None and matrix.complete():
        (folder / "airflow-faults.md").write_text(matrix.report(), "utf-8")
