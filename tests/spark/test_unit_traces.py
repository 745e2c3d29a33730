from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from rmq_core import ConfigurationError
from rmq_spark.traces import without_trace

SWITCH = "SPARK_HIDE_TRACEBACK"


@without_trace
def hook(error: Exception) -> None:
    raise error


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "to be restored")
    monkeypatch.delenv(SWITCH)


@pytest.mark.parametrize(
    ("program", "error", "switches"),
    [
        ("pyspark.daemon", ConfigurationError("wrong"), {SWITCH}),
        ("pyspark.daemon", ZeroDivisionError(), set()),
        ("pytest", ConfigurationError("wrong"), set()),
        (None, ConfigurationError("wrong"), set()),
    ],
)
def test_only_errors_of_rmq_in_sparks_python_process_are_shown_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, program: str | None, error: Exception, switches: set[str]
) -> None:
    spec = None if program is None else SimpleNamespace(name=program)
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=spec))
    with pytest.raises(type(error)):
        hook(error)
    assert os.environ.keys() & {SWITCH} == switches
