"""A pytest plugin that prints the cost of each fault in Airflow as a table; `tests/conftest.py` loads it.

When every fault was measured, it also saves the table, in the folder that `--faults-report` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

RECORD = "airflow-faults"
_played: dict[str, tuple[Mapping[str, Any], float]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the results of the tests, including those that another process of `pytest -n` ran."""
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
