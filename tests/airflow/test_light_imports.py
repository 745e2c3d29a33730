"""The cost of an import in a DAG file: disciplines that the component does not use are not loaded."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from rmq_airflow.get_provider_info import DISCIPLINES, get_provider_info

INFO = get_provider_info()
MODULES = [
    *(name for kind in ("operators", "sensors") for name in INFO[kind][0]["python-modules"]),
    INFO["task-decorators"][0]["class-name"].rpartition(".")[0],
]
LATER = {f"rmq_core.{name}" for name in (*DISCIPLINES, "redis_message_queue", "embedded")} - {"rmq_core.leased"}
LOOK = """
import gc, importlib, json, os, sys
import airflow.providers.apache.spark.operators.spark_submit, airflow.providers.common.compat.sdk  # slow, and not ours
from airflow.sdk import BaseOperator, BaseSensorOperator
gc.disable()  # it would look through all of Airflow again in each process
for module in sys.argv[1:]:
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    importlib.import_module(module)
    print(json.dumps([module, [name for name in sys.modules if name.startswith(("rmq_", "redis"))]]), flush=True)
    os._exit(0)
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    """Return the modules of RMQ and redis-py that a process has loaded after importing only one module of RMQ."""
    command = [sys.executable, "-W", "ignore", "-c", LOOK, *MODULES]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(line) for line in said.stdout.splitlines() if line.startswith("["))


@pytest.mark.parametrize("module", MODULES)
def test_an_operator_loads_neither_the_other_disciplines_nor_redis(module: str, loaded: dict[str, list[str]]) -> None:
    found = loaded[module]
    assert {"rmq_core.leased", module} <= set(found), "what it does use is there"
    assert LATER.isdisjoint(found)
    assert [name for name in found if name.partition(".")[0] in {"redis", "rmq_cli", "rmq_console"}] == []
