"""One Airflow and one Redis for these tests; the connection has a canary password that must never appear in output."""

from __future__ import annotations

import itertools
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest
import redis

from tests.airflow.floor import ABSENT_FILES, ABSENT_TESTS
from tests.airflow.home import prepare
from tests.servers import Server, start_server

HOME = prepare()
CANARY = "canary-3f1b6f0a"
QUEUE = "work"
TRIES = itertools.count(1)
collect_ignore = ABSENT_FILES


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests of features that this Airflow does not have."""
    for item in items:
        if item.name in ABSENT_TESTS:
            item.add_marker(pytest.mark.skip(reason=ABSENT_TESTS[item.name]))


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """A migrated metadata database with the bundles of the tests and the examples."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.utils.db import initdb

    with warnings.catch_warnings():
        # Its test client, which dag.test() uses for the API, finds the HTTP library that it is given out of date.
        warnings.filterwarnings("ignore", "Using `httpx` with `starlette.testclient`")
        import airflow.api_fastapi.execution_api.app  # noqa: F401
    initdb()
    DagBundlesManager().sync_bundles_to_db()


@pytest.fixture
def secured_url(redis_url: str) -> str:
    """An empty Redis with a user whose password is the canary; the default user stays for inspection by the tests."""
    with redis.Redis.from_url(redis_url) as client:
        client.execute_command("ACL", "SETUSER", "airflow", "reset", "on", f">{CANARY}", "~*", "&*", "+@all")
    return redis_url


@pytest.fixture
def connection(secured_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Create the connection `redis_queue_default`; return its id."""
    place = urlsplit(secured_url)
    fields = {"conn_type": "redis_queue", "host": place.hostname, "port": place.port, "login": "airflow"}
    database = {"db": int(place.path.strip("/") or 0)}
    value = json.dumps({**fields, "password": CANARY, "extra": database})
    monkeypatch.setenv("AIRFLOW_CONN_REDIS_QUEUE_DEFAULT", value)
    return "redis_queue_default"


@pytest.fixture
def queue(secured_url: str) -> Iterator[Any]:
    """The queue `work` with a client of the test."""
    from rmq_core import LeasedQueue

    with LeasedQueue(secured_url, QUEUE) as opened:
        yield opened


@pytest.fixture
def spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launcher without a JVM, and a connection to a local master."""
    beside = Path(__file__).parent / "bin"
    monkeypatch.setenv("PATH", f"{beside}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A Redis that a test may stop and kill, under the connection `own`."""
    server = start_server("7.0", "--appendonly", "yes", "--appendfsync", "always")
    fields = {"conn_type": "redis_queue", "host": "127.0.0.1", "port": server.port}
    monkeypatch.setenv("AIRFLOW_CONN_OWN", json.dumps(fields))
    yield server
    server.stop()


MakeContext = Callable[..., Any]


@pytest.fixture
def task_context() -> MakeContext:
    """Make the context of a task's try: `task_context(operator, try_number=2)`.

    state: the state of the task that Airflow returns, nothing by default. run: the run's `run_after` and
    `clear_number`; with it each context is of a try that was made later than the one before.
    """

    from airflow.sdk.execution_time.context import OutletEventAccessors

    def make(
        task: Any,
        *,
        try_number: int = 1,
        max_tries: int = 2,
        run_id: str = "run",
        state: str | None = None,
        run: tuple[datetime, int] | None = None,
    ) -> Any:
        names = {"dag_id": "dag", "run_id": run_id, "task_id": task.task_id, "map_index": -1}
        ti = SimpleNamespace(**names, try_number=try_number, max_tries=max_tries, task=task, stats_tags={})
        ti.start_date = datetime.now(UTC)
        ti.pushed = {}
        ti.xcom_push = ti.pushed.__setitem__
        if state is not None:
            ti.get_task_states = lambda *_, **__: {run_id: {} if state == "gone" else {task.task_id: state}}
        context = {"ti": ti, "task": task, "outlet_events": OutletEventAccessors()}
        if run is not None:
            ti.id = UUID(int=(next(TRIES) << 80) | 7 << 76 | 0b10 << 62)
            context["dag_run"] = SimpleNamespace(run_after=run[0], clear_number=run[1])
        return context

    return make
