"""Leases of ended tasks are released, or expired after a failure; those of unfinished tasks and of others stay."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from rmq_airflow.identity import RunMark, TaskIdentity
from rmq_core import LeasedQueue, open_queue
from tests.airflow.conftest import CANARY, QUEUE
from tests.airflow.plugin.conftest import CONNECTION
from tests.servers import start_server
from tests.servers.process import until

PATIENCE_S = 120
GRACE_S = 10.0
FAILURES_S = 5.0  # for several checks by a watcher that checks every second
ENDED = ["success", "failed", "skipped", "upstream_failed", "removed"]
GO_ON = [None, "scheduled", "queued", "running", "restarting", "up_for_retry", "up_for_reschedule", "deferred"]
TASK = TaskIdentity("etl", "manual__2026-11-20T22:00:00+00:00", "load", -1, 1)
OWNER = TASK.owner


@pytest.fixture
def watch(queues: str) -> Iterator[Any]:
    """A watcher of the server of the connection, which checks when the test calls it."""
    made = make_watch()
    yield made
    made.close()


def make_watch() -> Any:
    from rmq_airflow.plugin import connections
    from rmq_airflow.plugin.releases import ConnectionWatch

    return ConnectionWatch(CONNECTION, connections.place(CONNECTION, "tests"), 5.0)


def hold(queue: Any, owner: str = OWNER, count: int = 3) -> Any:
    """Claim a lease of so many messages, as a failed task keeps it."""
    queue.publish_many([f"{owner}: {number}" for number in range(count)])
    task = owner.removeprefix("airflow:").rpartition("/")[0]
    return queue.claim(lease_id=task, owner=owner, max_messages=count, lease=3600)


def owners(queue: Any) -> list[str]:
    return sorted(lease.owner for lease in queue.admin.leases())


@pytest.mark.parametrize("state", [state for state in ENDED if state != "failed"])
def test_messages_of_an_ended_task_are_ready_again_without_a_counted_delivery(
    watch: Any, instances: Any, queue: Any, state: str
) -> None:
    hold(queue, instances.put(OWNER, "up_for_retry"))
    watch.poll(0)
    instances.set(OWNER, state)
    watch.poll(5)
    assert owners(queue) == [OWNER]
    watch.poll(5 + GRACE_S)
    assert queue.stats()[:5] == (3, 0, 0, 0, 0)
    assert [message.deliveries for message in queue.claim(max_messages=3).messages] == [1, 1, 1]


@pytest.mark.parametrize(
    ("events", "counted"),
    [
        (("running", "failed"), 1),  # its process was killed: the supervisor reports that
        (("running", "heartbeat timeout", "failed"), 1),  # its machine is gone
        (("running", "state mismatch", "failed"), 1),  # its supervisor was killed
        (("running", "heartbeat timeout"), 1),
        (("failed",), 1),
        ((), 1),  # nothing is known
        (("running",), 0),  # somebody marked it
    ],
)
def test_a_failure_of_the_task_itself_counts_a_delivery_and_a_mark_does_not(
    watch: Any, instances: Any, queue: Any, events: tuple[str, ...], counted: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rmq_airflow")
    hold(queue, instances.put(OWNER, "failed"))
    instances.log(OWNER, *events)
    watch.poll(0)
    watch.poll(GRACE_S)
    assert owners(queue) == []
    assert [message.deliveries for message in queue.admin.peek(3)] == [counted] * 3
    assert [len(message.history) for message in queue.admin.peek(3)] == [counted] * 3
    (said,) = [text for text in caplog.messages if "lease" in text]
    if counted:
        assert "Expired lease" in said
        assert "try 1 of its task instance failed" in said
        assert said.count("heartbeat") == ("heartbeat timeout" in events)
        assert "try 1 of its task instance failed" in queue.admin.peek()[0].history[0].reason
    else:
        assert "Released lease" in said
        assert "marked failed" in said


@pytest.mark.parametrize(("last", "counted"), [((), 1), (("running",), 0), (("running", "failed"), 1)])
def test_the_newest_try_decides_whether_a_lease_kept_for_it_counts_a_delivery(
    watch: Any, instances: Any, queue: Any, last: tuple[str, ...], counted: int
) -> None:
    """Try 1 kept the lease, and try 2 ended before it took the lease over, or was marked."""
    hold(queue, OWNER)
    second = instances.put(replace(TASK, try_number=2).owner, "failed")
    instances.log(OWNER, "running", "up_for_retry")
    instances.log(second, *last)
    watch.poll(0)
    watch.poll(GRACE_S)
    assert [message.deliveries for message in queue.admin.peek(3)] == [counted] * 3


@pytest.mark.parametrize("state", GO_ON)
def test_a_task_that_still_runs_or_will_be_retried_keeps_its_messages(
    watch: Any, instances: Any, queue: Any, state: str | None
) -> None:
    hold(queue, instances.put(OWNER, state))
    for now in range(0, 300, 5):
        watch.poll(now)
    assert owners(queue) == [OWNER]


def test_a_failed_state_that_is_cleared_in_time_releases_nothing(watch: Any, instances: Any, queue: Any) -> None:
    hold(queue, instances.put(OWNER, "failed"))
    watch.poll(0)
    instances.set(OWNER, None)
    watch.poll(5)
    instances.set(OWNER, "failed")
    watch.poll(GRACE_S + 1)
    assert owners(queue) == [OWNER]
    watch.poll(2 * GRACE_S + 1)
    assert owners(queue) == []


@pytest.mark.parametrize("map_index", [-1, 4])
def test_messages_of_a_deleted_run_are_ready_again(watch: Any, instances: Any, queue: Any, map_index: int) -> None:
    owner = TaskIdentity("etl", "backfill/of/2026", "load", map_index, 2).owner
    hold(queue, instances.put(owner, "up_for_retry"))
    watch.poll(0)
    instances.delete(owner)
    watch.poll(5)
    watch.poll(5 + GRACE_S)
    assert queue.stats().ready == 3


def test_a_run_that_was_deleted_before_the_first_check_is_known_from_the_audit_log(
    watch: Any, instances: Any, queue: Any
) -> None:
    hold(queue, instances.put(OWNER, "up_for_retry"))
    instances.log(OWNER, "running")
    instances.delete(OWNER)
    watch.poll(0)
    watch.poll(GRACE_S)
    assert queue.stats().ready == 3


def test_messages_of_a_deleted_run_are_ready_again_although_a_new_run_has_its_name(
    watch: Any, instances: Any, queue: Any
) -> None:
    former = replace(TASK, mark=RunMark(1_000_000, 0, 7)).owner
    instances.put(OWNER, "running")  # whose run has just been created
    hold(queue, former)
    watch.poll(0.0)
    watch.poll(GRACE_S)
    assert (owners(queue), queue.stats().ready) == ([], 3)


def test_leases_of_a_run_of_another_airflow_are_left_to_that_airflow(watch: Any, instances: Any, queue: Any) -> None:
    hold(queue)
    for now in range(0, 300, 5):
        watch.poll(now)
    assert owners(queue) == [OWNER]


def test_one_map_index_that_has_ended_releases_only_its_own_messages(watch: Any, instances: Any, queue: Any) -> None:
    states = {0: "failed", 1: "running", 2: "up_for_retry", 10: "success"}
    mapped = {index: TaskIdentity("etl", "run", "load", index, 1).owner for index in states}
    for index, state in states.items():
        hold(queue, instances.put(mapped[index], state))
    watch.poll(0)
    watch.poll(GRACE_S)
    assert owners(queue) == sorted([mapped[1], mapped[2]])
    assert queue.stats().ready == 6


def test_holders_that_are_not_airflow_tasks_keep_their_messages(watch: Any, instances: Any, queue: Any) -> None:
    instances.put(OWNER, "failed")
    others = ["worker-7", "dagster:run/step", "airflow", "airflow:etl/run", ""]
    for owner in others:
        queue.publish("x")
        queue.claim(owner=owner)
    for now in range(0, 100, 5):
        watch.poll(now)
    assert owners(queue) == sorted(others)


class TestHandOver:
    """A sensor that handed its lease over succeeds long before the next task adopts it."""

    SENSOR = TaskIdentity("etl", "run", "wait", -1, 1).owner
    RETURNED = {"queue": QUEUE, "ready": 3, "lease_id": "etl/run/wait/-1", "owner": SENSOR, "claimed": 3}  # noqa: RUF012

    @pytest.mark.parametrize("returned", [RETURNED, "s3://elsewhere/xcom/return_value.json"])
    def test_a_handed_over_lease_waits_for_the_next_task_while_the_run_is_unfinished(
        self, watch: Any, instances: Any, queue: Any, returned: Any
    ) -> None:
        hold(queue, instances.put(self.SENSOR, "success", returned=returned))
        for now in range(0, 3000, 50):
            watch.poll(now)
        assert owners(queue) == [self.SENSOR]

    @pytest.mark.parametrize("state", ["success", "failed"])
    def test_a_handed_over_lease_is_released_when_the_run_ends_before_an_adoption(
        self, watch: Any, instances: Any, queue: Any, state: str
    ) -> None:
        hold(queue, instances.put(self.SENSOR, "success", returned=self.RETURNED))
        watch.poll(0)
        watch.poll(100)
        instances.end_run(self.SENSOR, state)
        watch.poll(105)
        assert owners(queue) == [self.SENSOR]
        watch.poll(105 + GRACE_S)
        assert queue.stats().ready == 3

    def test_a_lease_that_the_next_task_adopted_belongs_to_that_task(
        self, watch: Any, instances: Any, queue: Any
    ) -> None:
        lease = hold(queue, instances.put(self.SENSOR, "success", returned=self.RETURNED))
        taker = TaskIdentity("etl", "run", "take", -1, 1).owner
        instances.put(taker, "up_for_retry")
        watch.poll(0)
        queue.adopt(lease.id, owner=taker, if_owner=self.SENSOR)
        watch.poll(5)
        watch.poll(100)
        assert owners(queue) == [taker]
        instances.set(taker, "failed")
        watch.poll(105)
        watch.poll(105 + GRACE_S)
        assert owners(queue) == []

    @pytest.mark.parametrize("returned", [None, {"lease_id": "etl/run/wait/-1", "acked": 0}, [1, 2]])
    def test_a_task_that_was_marked_success_handed_nothing_over(
        self, watch: Any, instances: Any, queue: Any, returned: Any
    ) -> None:
        hold(queue, instances.put(self.SENSOR, "success", returned=returned))
        watch.poll(0)
        watch.poll(GRACE_S)
        assert owners(queue) == []


def test_concurrent_api_servers_release_a_lease_once(
    instances: Any, queue: Any, queues: str, caplog: pytest.LogCaptureFixture
) -> None:
    every = [TaskIdentity("etl", f"run-{number}", "load", -1, 1).owner for number in range(20)]
    for owner in every:
        hold(queue, instances.put(owner, "success"))
    watches = [make_watch() for _ in range(3)]
    caplog.set_level(logging.INFO, "rmq_airflow")
    for watch in watches:
        watch.poll(0)
    threads = [threading.Thread(target=watch.poll, args=(GRACE_S,)) for watch in watches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for watch in watches:
        watch.close()
    assert queue.stats()[:5] == (60, 0, 0, 0, 0)
    said = [text for text in caplog.messages if "Released lease" in text]
    assert len(said) == 20
    assert all("3 messages are ready again and 0 are dead letters, because its task inst" in text for text in said)


def test_a_retry_that_took_the_lease_over_meanwhile_keeps_it(queue: Any, queues: str, instances: Any) -> None:
    from rmq_airflow.plugin.holders import Standing
    from rmq_airflow.plugin.releases import take_back

    hold(queue)
    (seen,) = queue.admin.leases()
    retry = TaskIdentity(TASK.dag_id, TASK.run_id, TASK.task_id, -1, 2).owner
    held = queue.claim(lease_id=seen.id, owner=retry)
    for failed in (True, False):
        take_back(queue, seen, Standing(True, "it had ended", failed))
    assert owners(queue) == [retry]
    queue.ack(held)
    for failed in (True, False):
        take_back(queue, seen, Standing(True, "it had ended", failed))
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_damaged_queues_and_those_of_other_disciplines_hide_no_lease(
    watch: Any, instances: Any, queue: Any, secured_url: str
) -> None:
    streams = open_queue(secured_url, "events", "streams")
    streams.publish({"n": 1})
    assert streams.claim(owner=OWNER) is not None
    with LeasedQueue(secured_url, "damaged") as damaged:
        damaged.publish("x")
        damaged.client.set("rmq:{damaged}:leases", "foreign")
    hold(queue, instances.put(OWNER, "failed"))
    watch.poll(0)
    watch.poll(GRACE_S)
    assert owners(queue) == []
    assert streams.stats().leased == 1
    streams.close()


def test_more_leases_than_fit_into_one_query_are_all_checked(watch: Any, instances: Any, queue: Any) -> None:
    from rmq_airflow.plugin.holders import CHUNK

    every = [TaskIdentity("etl", "run", "load", index, 1).owner for index in range(CHUNK + 20)]
    for owner in every:
        hold(queue, instances.put(owner, "failed"), count=1)
    watch.poll(0)
    watch.poll(GRACE_S)
    assert queue.stats()[:5] == (CHUNK + 20, 0, 0, 0, 0)


def test_released_messages_are_counted_in_a_metric(
    watch: Any, instances: Any, queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rmq_airflow.plugin import releases as watches

    told: list[Any] = []
    monkeypatch.setattr(watches.Stats, "incr", lambda *words, tags: told.append((*words, tags)))
    hold(queue, instances.put(OWNER, "skipped"))
    watch.poll(0)
    watch.poll(GRACE_S)
    instances.set(OWNER, "failed")
    hold(queue)
    watch.poll(GRACE_S + 1)
    watch.poll(2 * GRACE_S + 1)
    counts = {"queue": QUEUE}
    assert told == [("rmq.released_ended", 3, counts), ("rmq.expired_ended", 3, counts)]


class TestRunning:
    """The loop itself: its threads, from the lifespan that Airflow enters to its end."""

    @pytest.fixture(autouse=True)
    def quickly(self, monkeypatch: pytest.MonkeyPatch, airflow_database: None) -> None:
        from rmq_airflow.plugin import releases as endings

        monkeypatch.setattr(endings, "GRACE_S", 0.5)
        monkeypatch.setenv("AIRFLOW__RMQ__RELEASE_INTERVAL", "1")

    async def test_the_watcher_runs_as_long_as_the_api_server(self, queues: str, instances: Any, queue: Any) -> None:
        hold(queue, instances.put(OWNER, "failed"))
        async with api_server():
            await until_async(lambda: not owners(queue))
        assert ours() == []
        hold(queue, instances.put(TASK.owner.replace("/load/", "/store/"), "failed"))
        await asyncio.sleep(FAILURES_S)
        assert len(owners(queue)) == 1

    async def test_the_watcher_can_be_switched_off(
        self, queues: str, instances: Any, queue: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AIRFLOW__RMQ__RELEASE_ENDED", "False")
        hold(queue, instances.put(OWNER, "failed"))
        async with api_server():
            await until_async(lambda: not ours())
        assert owners(queue) == [OWNER]

    async def test_an_invalid_setting_is_logged_and_the_api_server_runs(
        self, queues: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("AIRFLOW__RMQ__RELEASE_INTERVAL", "often")
        async with api_server():
            await until_async(lambda: not ours())
        assert "does not release the leases of ended tasks" in caplog.text
        assert "release_interval" in caplog.text.lower()

    async def test_a_server_that_hangs_or_is_unreachable_delays_no_other(
        self,
        queues: str,
        instances: Any,
        queue: Any,
        stored: Callable[..., str],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        hanging = start_server("7.0")
        hanging.pause()
        try:
            stored("a-hanging", conn_type="redis_queue", host="127.0.0.1", port=hanging.port, password=CANARY)
            stored("b-gone", conn_type="redis_queue", host="127.0.0.1", port=1, login="u", password=CANARY)
            stored("c-wrong", conn_type="redis_queue", host=f"redis://u:{CANARY}@127.0.0.1")
            hold(queue, instances.put(OWNER, "failed"))
            async with api_server():
                await until_async(lambda: not owners(queue))
                await until_async(lambda: all(name in caplog.text for name in ("a-hanging", "b-gone", "c-wrong")))
        finally:
            hanging.resume()
            hanging.stop()
        assert CANARY not in caplog.text

    async def test_an_outage_of_redis_is_logged_once_and_redis_is_checked_again(
        self, instances: Any, stored: Callable[..., str], caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "rmq_airflow")
        server = start_server("7.0", "--appendonly", "yes", "--appendfsync", "always")
        try:
            stored("own", conn_type="redis_queue", host="127.0.0.1", port=server.port)
            with LeasedQueue(server.url, QUEUE) as held:
                hold(held, instances.put(OWNER, "up_for_retry"))
                async with api_server():
                    await until_async(lambda: bool(watched(server)))
                    server.kill9()
                    instances.set(OWNER, "failed")
                    await until_async(lambda: "'own' cannot be read" in caplog.text)
                    await asyncio.sleep(FAILURES_S)
                    server.restart()
                    await until_async(lambda: "'own' can be read again" in caplog.text)
                    await until_async(lambda: not owners(held))
        finally:
            server.stop()
        assert caplog.text.count("'own' cannot be read") == 1

    async def test_an_added_or_changed_connection_is_picked_up(
        self, queues: str, instances: Any, queue: Any, monkeypatch: pytest.MonkeyPatch, secured_url: str
    ) -> None:
        from rmq_airflow.plugin import releases

        monkeypatch.setattr(releases, "REREAD_S", 0.5)
        monkeypatch.setenv("AIRFLOW__RMQ__CONNECTIONS", "from_environment")
        monkeypatch.setenv("AIRFLOW_CONN_FROM_ENVIRONMENT", "redis-queue://127.0.0.1:1")
        hold(queue, instances.put(OWNER, "up_for_retry"))
        async with api_server():
            await until_async(lambda: {"rmq-releases-from_environment", f"rmq-releases-{CONNECTION}"} <= set(ours()))
            monkeypatch.delenv("AIRFLOW__RMQ__CONNECTIONS")
            await until_async(lambda: "rmq-releases-from_environment" not in ours())
            instances.set(OWNER, "failed")
            await until_async(lambda: not owners(queue))


async def test_a_temporary_failure_of_a_secrets_backend_does_not_end_the_watcher(
    queues: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from rmq_airflow.plugin import connections, releases

    def denied(*_: Any) -> Any:
        raise PermissionError(CANARY)

    watches = releases.Watches(5.0)
    watches.reread()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(connections, "place", denied)
            for _ in range(3):
                watches.reread()
            assert f"rmq-releases-{CONNECTION}" in ours()
        assert caplog.text.count(f"Connection '{CONNECTION}' cannot be read (PermissionError)") == 1
        assert CANARY not in caplog.text
    finally:
        watches.stop()
    assert ours() == []


def test_an_outage_of_the_metadata_database_is_logged_once_without_its_credentials(
    watch: Any, instances: Any, queue: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from rmq_airflow.plugin import releases as watches

    def away(_: Any) -> Any:
        raise OperationalError(f"SELECT {CANARY}", {}, ConnectionError(f"postgresql://u:{CANARY}@h"))

    caplog.set_level(logging.INFO, "rmq_airflow")
    hold(queue, instances.put(OWNER, "failed"))
    trouble = watches.Trouble("The leases")
    with monkeypatch.context() as patched:
        patched.setattr(watches, "standings", away)
        for now in range(5):
            with trouble.logged():
                watch.poll(now)
    assert trouble.times == 5
    for now in (10, 20 + GRACE_S):
        with trouble.logged():
            watch.poll(now)
    assert owners(queue) == []
    assert CANARY not in caplog.text
    assert [text for text in caplog.messages if "be read" in text] == [
        "The leases cannot be read (OperationalError); trying again.",
        "The leases can be read again.",
    ]


def api_server() -> Any:
    """Enter the lifespan of an Airflow API server that has mounted the plugin, as Airflow does."""
    from airflow.api_fastapi.app import lifespan
    from airflow.plugins_manager import get_fastapi_plugins
    from fastapi import FastAPI

    (ours,) = (each for each in get_fastapi_plugins()[0] if each["name"] == "RMQ")
    airflow = FastAPI()
    airflow.mount(ours["url_prefix"], ours["app"])
    return lifespan(airflow)


def ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("rmq-releases")]


def watched(server: Any) -> list[Any]:
    with server.client() as client:
        return [each for each in client.client_list() if each["name"] == "rmq-airflow-releases"]


async def until_async(holds: Callable[[], bool]) -> None:
    await asyncio.to_thread(until, holds, PATIENCE_S, pace_s=0.1)
