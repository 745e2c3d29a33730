"""`rmq export` and `rmq import` are killed in the middle: every message arrives once, in its place.

An import is killed twice, since the second resumes what the first left; an export leaves nothing.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis

from rmq_core import LeasedConfig, LeasedQueue, QueueFull
from rmq_core.transfer.exporting import Export, ExportFile
from rmq_core.transfer.importing import Import
from tests.faults import tally
from tests.faults.patience import PATIENCE_S
from tests.faults.proxy import Fault, Proxy
from tests.servers import Server

SHORT, FULL = 20_000, 1_000_000
TENTH = FULL // 10
PAGE = 10_000


def stock(url: str, total: int) -> LeasedQueue:
    """A paused queue: most messages are ready, some delayed, dead or isolated."""
    queue = LeasedQueue(url, "q", LeasedConfig(max_deliveries=1))
    queue.publish_many([{"dead": n} for n in range(total // 100)], headers={"k": "v"})
    while lease := queue.claim(max_messages=1000):
        queue.nack(lease, reason="it failed")
    gentle = LeasedQueue(queue.client, "q")
    gentle.publish_many([f"suspect {n}" for n in range(total // 100)])
    for _ in range(2):
        while (lease := gentle.claim(max_messages=4000)) and lease.isolation is None:
            gentle.nack(lease)
        if lease:
            gentle.release(lease)
    for delay in range(5):
        queue.publish_many([b"\x00%d" % n for n in range(total // 100)], delay=1000 + delay)
    rest = total - sum(queue.stats()[number] for number in (0, 1, 4))
    queue.publish_many({"n": n, "text": "of a usual length", "tags": ["a", "b"]} for n in range(rest))
    queue.admin.pause()
    return queue


def stored(client: redis.Redis) -> Iterator[Any]:
    """All that the queue holds, in order."""
    for key in ("ready", "dead"):
        for lo in range(0, client.llen(f"rmq:{{q}}:{key}"), PAGE):
            yield from client.lrange(f"rmq:{{q}}:{key}", lo, lo + PAGE - 1)
    for lo in range(0, client.zcard("rmq:{q}:delayed"), PAGE):
        yield from client.zrange("rmq:{q}:delayed", lo, lo + PAGE - 1, withscores=True)


class Command:
    """A process that runs `rmq`. peak_mib: its largest resident memory; seconds: how long it ran."""

    def __init__(self, *words: str, url: str, **files: Any) -> None:
        command = [sys.executable, "-m", "rmq_cli", *words, "--url", url]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, **files)
        self.peak_mib = self.seconds = 0.0
        self.began = time.monotonic()

    def kill_once(self, reached: Callable[[], bool]) -> None:
        """SIGKILL as soon as that is reached."""
        deadline = time.monotonic() + PATIENCE_S
        while not reached():
            assert self.process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            self._sample()
            time.sleep(0.002)
        self.process.kill()
        self.seconds = time.monotonic() - self.began
        tally.count("export or import killed in the middle")
        self._said()

    def end(self) -> str:
        """What it wrote to stderr, once it has ended."""
        while self.process.poll() is None:
            self._sample()
            time.sleep(0.02)
        self.seconds = time.monotonic() - self.began
        return self._said()

    def _said(self) -> str:
        assert self.process.stderr is not None
        with self.process.stderr as said:
            text = said.read().decode()
        self.process.wait()
        return text

    def _sample(self) -> None:
        try:
            text = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return
        for line in text.splitlines():
            if line.startswith("VmHWM"):
                self.peak_mib = int(line.split()[1]) / 1024


class Moved(NamedTuple):
    """The processes that moved a queue, in the order of their starts: of each kind, all but the last were killed."""

    total: int
    exports: list[Command]
    imports: list[Command]

    @property
    def peaks(self) -> tuple[float, float]:
        """The most resident memory of an export and of an import, in MiB."""
        return max(one.peak_mib for one in self.exports), max(one.peak_mib for one in self.imports)

    def __str__(self) -> str:
        export, whole = self.exports[-1].seconds, sum(one.seconds for one in self.imports)
        return (
            f"{self.total:,} messages: export {self.total / export:,.0f}/s ({export:.1f} s), at most"
            f" {self.peaks[0]:.1f} MiB; import {self.total / whole:,.0f}/s ({whole:.1f} s in {len(self.imports)} runs,"
            f" {self.imports[-1].seconds:.1f} s in the last), at most {self.peaks[1]:.1f} MiB"
        )


def progress(client: redis.Redis) -> int:
    record = client.get("rmq:{q}:import:q.leased")
    return int(record.split()[1]) if isinstance(record, bytes) else 0


def export_with_kills(url: str, total: int, file: Path, target_url: str) -> Iterator[Command]:
    """Kill an export in the middle, whose file an import refuses, then complete one."""
    with file.open("wb") as out:
        yield (killed := Command("export", "q", url=url, stdout=out))
        killed.kill_once(lambda: file.stat().st_size > total * 40)
    assert "truncated" in Command("import", "q", str(file), url=target_url).end()
    with file.open("wb") as out:
        yield (whole := Command("export", "q", url=url, stdout=out))
        assert f"exported {total:,} messages" in whole.end()


def import_with_kills(url: str, total: int, file: Path, target: redis.Redis) -> Iterator[Command]:
    """Kill an import in the middle, resume it, kill that too, and complete it."""
    for part in (3, 2):
        yield (killed := Command("import", "q", str(file), url=url, stdout=subprocess.DEVNULL))
        killed.kill_once(lambda part=part: progress(target) > total // part)  # type: ignore[misc]
        assert total // part < progress(target) < total
    yield (last := Command("import", "q", str(file), url=url, stdout=subprocess.DEVNULL))
    assert last.end() == ""
    assert progress(target) == total


def move(own_server: Server, client: redis.Redis, total: int, file: Path) -> Moved:
    """Move a queue to another server with kills, and compare all that both store, in order."""
    with ExitStack() as ends:
        client.flushall()
        other = Server(own_server.name)
        ends.callback(other.stop)
        ends.callback(stock(own_server.url, total).close)
        there = ends.enter_context(other.client())
        exports = list(export_with_kills(own_server.url, total, file, other.url))
        assert there.dbsize() == 0
        imports = list(import_with_kills(other.url, total, file, there))
        same = all(a == b for a, b in zip(stored(client), stored(there), strict=True))
        assert same
        return Moved(total, exports, imports)


def test_a_queue_moves_whole_although_export_and_import_are_killed(
    own_server: Server, client: redis.Redis, tmp_path: Path, *, full_faults: bool
) -> None:
    sizes = (TENTH, FULL) if full_faults else (SHORT,)
    runs = [move(own_server, client, total, tmp_path / "q.ndjson") for total in sizes]
    print(*runs, sep="\n")
    if full_faults:
        fewer, more = runs
        assert all(large < 1.2 * small for small, large in zip(fewer.peaks, more.peaks, strict=True))


def piped(url: str, target_url: str) -> tuple[Command, Command]:
    """An export, and an import of what it writes."""
    export = Command("export", "q", url=url, stdout=subprocess.PIPE)
    target = Command("import", "q", url=target_url, stdin=export.process.stdout, stdout=subprocess.DEVNULL)
    assert export.process.stdout is not None
    export.process.stdout.close()  # the only reader is the import now
    return export, target


def test_a_pipe_whose_export_is_killed_is_completed_by_the_next(own_server: Server, client: redis.Redis) -> None:
    with ExitStack() as ends:
        other = Server(own_server.name)
        ends.callback(other.stop)
        ends.callback(stock(own_server.url, SHORT).close)
        there = ends.enter_context(other.client())
        export, target = piped(own_server.url, other.url)
        export.kill_once(lambda: progress(there) > SHORT // 2)
        assert "truncated" in target.end()
        assert target.process.returncode == 1
        export, target = piped(own_server.url, other.url)
        assert target.end() == ""
        assert "exported" in export.end()
        assert list(stored(client)) == list(stored(there))


@pytest.mark.parametrize("fault", list(Fault))
def test_an_import_over_a_wire_that_breaks_stores_each_message_once(
    own_server: Server, client: redis.Redis, wire: Proxy, fault: Fault
) -> None:
    with ExitStack() as ends:
        source = ends.enter_context(stock(own_server.url, 5000))
        lines = list(Export(source, "0").lines())
        before = list(stored(client))
        target = ends.enter_context(LeasedQueue(wire.url, "q"))
        for at in range(8):
            client.delete(*client.keys("rmq:{q}:*"))
            wire.cut(fault, at)
            Import(target, "a").run(ExportFile(lines))
            assert wire.hit
            if fault == Fault.REQUEST_LATE:
                wire.deliver_late()
            assert list(stored(client)) == before


def test_a_full_server_refuses_a_chunk_whole_and_takes_it_once_it_has_room(
    own_server: Server, client: redis.Redis
) -> None:
    with ExitStack() as ends:
        queue = ends.enter_context(stock(own_server.url, 5000))
        lines = list(Export(queue, "0").lines())
        before = list(stored(client))
        client.delete(*client.keys("rmq:{q}:*"))
        ends.callback(client.config_set, "maxmemory", 0)
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        tally.count("server out of memory")
        for _ in range(2):
            with pytest.raises(QueueFull):
                Import(queue, "a").run(ExportFile(lines))
        assert not client.exists("rmq:{q}:ready", "rmq:{q}:delayed", "rmq:{q}:dead", "rmq:{q}:import:a")
        client.config_set("maxmemory", 0)
        Import(queue, "a").run(ExportFile(lines))
        assert list(stored(client)) == before
