from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import redis

from rmq_core import LeasedQueue, RedisSettings
from rmq_core.orchestrate import Handover
from rmq_dagster import RedisQueueResource, build_redis_queue_sensor
from tests.dagster import pipeline
from tests.dagster.pipeline import CONFIG, Work, notes
from tests.faults.patience import eventually

CANARY = "canary-5b0e1f"
USER = "worker"

# Dagster's own Pipes session calls what Dagster itself deprecates or calls a preview.
pytestmark = [
    pytest.mark.filterwarnings("ignore:AssetExecutionContext.run_id is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.PreviewWarning"),
]


def client_of(url: str) -> redis.Redis:
    client = RedisSettings.from_url(url).client()
    assert isinstance(client, redis.Redis)
    return client


@pytest.fixture
def guarded_url(redis_url: str) -> Iterator[str]:
    """The Redis of the tests for a user with a password."""
    with client_of(redis_url) as client:
        client.execute_command("ACL", "SETUSER", USER, "on", f">{CANARY}", "~*", "&*", "+@all")
        yield f"unix://{client.connection_pool.connection_kwargs['path']}"
        client.acl_deluser(USER)


@pytest.fixture
def resource(guarded_url: str, monkeypatch: pytest.MonkeyPatch) -> RedisQueueResource:
    monkeypatch.setenv("TEST_PASSWORD", CANARY)
    return RedisQueueResource(url=guarded_url, username=USER, password=dg.EnvVar("TEST_PASSWORD"))


def everything_written(instance: dg.DagsterInstance) -> bytes:
    """Return every byte that Dagster stored: runs, tags, run config, events, ticks, compute logs."""
    return b"\n".join(file.read_bytes() for file in Path(instance.root_directory).rglob("*") if file.is_file())


@pytest.mark.parametrize("behaviour", ["adopt", "fail"])
def test_a_run_writes_its_password_nowhere(
    behaviour: str,
    resource: RedisQueueResource,
    queue: LeasedQueue,
    on_disk: dg.DagsterInstance,
    seen: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    queue.publish("a")
    work = Work(queue=queue.name, behaviours=[behaviour], seen=str(seen))
    result = dg.materialize(
        [pipeline.worked], instance=on_disk, resources={"redis_queue": resource, "work": work}, raise_on_error=False
    )
    assert result.success is (behaviour == "adopt")
    stored = everything_written(on_disk)
    assert result.run_id.encode() in stored
    assert CANARY.encode() not in stored
    assert CANARY not in "".join(capfd.readouterr())
    assert CANARY not in repr(notes(seen)[0]["command"])  # what `ps` shows of the driver


def test_the_error_for_a_wrong_password_does_not_contain_it(
    resource: RedisQueueResource,
    queue: LeasedQueue,
    on_disk: dg.DagsterInstance,
    seen: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEST_PASSWORD", f"wrong-{CANARY}")
    work = Work(queue=queue.name, behaviours=["succeed"], seen=str(seen))
    result = dg.materialize(
        [pipeline.worked], instance=on_disk, resources={"redis_queue": resource, "work": work}, raise_on_error=False
    )
    assert not result.success
    assert "password" in str(result.failure_data_for_node("worked").error.cause.message)  # type: ignore[union-attr]
    assert CANARY.encode() not in everything_written(on_disk)
    assert CANARY not in "".join(capfd.readouterr())


def test_credentials_of_the_url_reach_the_driver_outside_of_the_url() -> None:
    resource = RedisQueueResource(url=f"redis://{USER}:{CANARY}@cache:6379/2")
    handed_over = Handover(resource.settings(), "work", "run/step", "run").environment()
    names = {"queue": "work", "lease_id": "run/step", "owner": "run", "credentials": ["username", "password"]}
    assert handed_over == {
        "RMQ_HANDOVER": json.dumps(names),
        "RMQ_URL": "redis://cache:6379/2",
        "RMQ_USERNAME": USER,
        "RMQ_PASSWORD": CANARY,
    }


def latest(client: redis.Redis) -> int:
    """Return the number of the last opened connection."""
    return max(int(connection["id"]) for connection in client.client_list())


def await_connections(expected: int, since: int, client: redis.Redis) -> None:
    """Wait until so many of the connections opened since are open; the server notices a closed one after a moment."""
    eventually(lambda: sum(int(connection["id"]) > since for connection in client.client_list()) == expected)


def test_a_tick_leaves_no_connection_and_no_thread_behind(redis_url: str, instance: dg.DagsterInstance) -> None:
    sensor = build_redis_queue_sensor("quiet", target=pipeline.worked, config=CONFIG)
    with client_of(redis_url) as client:
        threads, before = set(threading.enumerate()), latest(client)
        resource = RedisQueueResource(url=redis_url)
        with dg.build_sensor_context(instance=instance, resources={"redis_queue": resource}) as context:
            sensor(context)
        assert set(threading.enumerate()) <= threads
        await_connections(0, before, client)


def test_a_resource_connects_at_the_first_use_once_for_all_queues(redis_url: str) -> None:
    with client_of(redis_url) as client:
        before = latest(client)
        resource = RedisQueueResource(url=redis_url)
        await_connections(0, before, client)
        for name in ("one", "two", "one", "two"):
            resource.queue(name, CONFIG).stats()
        await_connections(1, before, client)
        resource.close()
        await_connections(0, before, client)
