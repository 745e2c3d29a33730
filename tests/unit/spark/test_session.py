from __future__ import annotations

import os
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

import rmq_spark

MODULE = import_module("rmq_spark.runtime.session")  # the package has a function of this name


class Builder:
    """A builder that records the settings of a session."""

    def __init__(self) -> None:
        self.conf: dict[str, Any] = {}

    def appName(self, name: str) -> Builder:
        return self.config("name", name)

    def config(self, key: str, value: Any) -> Builder:
        self.conf[key] = value
        return self

    def getOrCreate(self) -> dict[str, Any]:
        return self.conf


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has never started Spark and has Java in /java."""
    started = SimpleNamespace(builder=Builder(), getActiveSession=lambda: None)
    monkeypatch.setattr(MODULE, "SparkSession", started)
    for variable in ("JAVA_HOME", "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.setenv(variable, "to be restored")
        monkeypatch.delenv(variable)
    monkeypatch.setattr(MODULE, "spark_environment", lambda: {"JAVA_HOME": "/java"})


def test_a_session_gets_its_settings_and_java() -> None:
    conf: Any = rmq_spark.session("job", **{"spark.sql.shuffle.partitions": 8})
    assert conf == {"name": "job", "spark.sql.shuffle.partitions": 8}
    assert os.environ["JAVA_HOME"] == "/java"


@pytest.mark.parametrize("variable", ["SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"])
def test_java_is_not_checked_under_connect_and_spark_submit(variable: str) -> None:
    os.environ[variable] = "set"
    rmq_spark.session("job")
    assert "JAVA_HOME" not in os.environ


def test_a_session_of_a_connect_server_needs_no_java() -> None:
    rmq_spark.session("job", **{"spark.remote": "sc://server"})
    assert "JAVA_HOME" not in os.environ
