"""One Airflow for all rounds, with its own PostgreSQL, Redis and relay."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.airflow.deployment import Deployment
from tests.faults.airflow.endings import CONNECTIONS
from tests.faults.airflow.faults import FAULTS, SHORT
from tests.faults.airflow.scene import LEASE_S, World
from tests.faults.airflow.wire import Wire
from tests.servers import start_server
from tests.servers.postgres import running_postgres

HERE = Path(__file__).parent
WITHOUT_JVM = HERE.parents[1] / "airflow" / "bin"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """In full length a round for each fault; in the short form three of them, run at the same time."""
    if "faults" in metafunc.fixturenames:
        full = metafunc.config.getoption("faults") == "full"
        rounds = [(fault,) for fault in FAULTS] if full else [SHORT]
        metafunc.parametrize("faults", rounds, ids=lambda faults: "+".join(fault.key for fault in faults))


@pytest.fixture(scope="session")
def deployed(pytestconfig: pytest.Config) -> Iterator[World]:
    """With a real Spark in full length; in the short form, with a driver that needs no JVM."""
    redis = start_server("7.0", "--appendonly", "yes", "--appendfsync", "always")
    with running_postgres() as database, Wire(redis.port) as wire:
        airflow = Deployment(database, environment_of(wire, full=pytestconfig.getoption("faults") == "full"))
        yield World(airflow, redis, wire)
        airflow.stop()
    redis.stop()


def environment_of(wire: Wire, *, full: bool) -> dict[str, str]:
    """Return the connections of the tasks, which reach Redis through the relay, and the program of the Spark jobs."""
    queues = {"conn_type": "redis_queue", "host": "127.0.0.1", "port": wire.port, "extra": {"lease": LEASE_S}}
    others = {
        f"AIRFLOW_CONN_{name.upper()}": json.dumps({**queues, "extra": extra}) for name, extra in CONNECTIONS.items()
    }
    launcher = {} if full else {"PATH": f"{WITHOUT_JVM}{os.pathsep}{os.environ['PATH']}"}
    return {
        "AIRFLOW_CONN_REDIS_QUEUE_DEFAULT": json.dumps(queues),
        "AIRFLOW__RMQ__CONNECTIONS": "redis_queue_default",
        **others,
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "RMQ_TESTS_DRIVER": str(HERE / "jobs" / ("spark.py" if full else "light.py")),
        "PYSPARK_PYTHON": sys.executable,
        **launcher,
    }
