"""The journal as a file: `queue.admin.journal`, `JournalExport`."""

from __future__ import annotations

import json
import tracemalloc
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue, ReliableQueue, Unsupported
from rmq_core.observe.history import acting_as
from rmq_core.transfer.exporting import JournalExport, into_file
from tests.core.worlds import World

KEY = "rmq:{q}:journal"
JOURNAL = LeasedConfig(max_deliveries=2, journal=1_000_000)


def played(queue: Any) -> list[str]:
    """Fill the journal: two messages are published and claimed; one is acked, one dies and is deleted."""
    with acting_as("alice"):
        ids: list[str] = queue.publish_many([*"ab"]).ids
        lease = queue.claim(max_messages=2, lease_id="job", owner="host-1")
        queue.ack(lease, [lease.messages[0]])
        queue.nack(lease, reason="it broke")
        queue.nack(queue.claim(owner="host-2"), reason="again")
        queue.admin.discard([ids[1]])
    return ids


def many(client: redis.Redis, count: int, ids: str = "m-1") -> None:
    """Write entries as a program that runs for long does."""
    client.delete(KEY)
    for lo in range(0, count, 10_000):
        with client.pipeline(transaction=False) as pipe:
            for n in range(lo, min(count, lo + 10_000)):
                pipe.xadd(
                    KEY, {"e": "acked", "l": f"lease-{n}", "f": n, "o": "host", "n": 1, "i": ids}, id=f"{n + 1}-0"
                )
            pipe.execute()


def written(queue: Any, path: Path, after: str | None = None) -> JournalExport:
    made = JournalExport(queue, after=after)
    made.write(into_file(path))
    return made


def test_the_journal_is_read_page_by_page_up_to_where_it_ended_at_the_start(world: World) -> None:
    queue = world.queue(config=JOURNAL)
    assert queue.admin.journal() == ([], None, None)
    many(world.client, 600)
    page = queue.admin.journal()
    numbers = [entry.lease_id for entry in page.entries]
    world.client.xadd(KEY, {"e": "acked", "l": "too late"}, id="601-0")
    while page.after:
        page = queue.admin.journal(after=page.after, until=page.until)
        numbers += [entry.lease_id for entry in page.entries]
    assert numbers == [f"lease-{n}" for n in range(600)]
    assert [entry.lease_id for entry in queue.admin.journal(after="600-0").entries] == ["too late"]
    for wrong in ("", "-", "1", "1-0 ", 7):
        with pytest.raises(ConfigurationError, match="after"):
            queue.admin.journal(after=wrong)


def test_a_line_is_an_entry_with_the_columns_that_the_page_documents(
    redis_client: redis.Redis, server_url: str, tmp_path: Path
) -> None:
    del redis_client
    with LeasedQueue(server_url, "q", JOURNAL) as queue:
        first, second = played(queue)
        since = queue.admin.server_time()
        made = written(queue, tmp_path / "q.ndjson")
    rows = [json.loads(line) for line in (tmp_path / "q.ndjson").read_text().splitlines()]
    assert [*rows[0]] == [
        "entry_id", "at", "queue", "event", "messages", "message_ids", "lease_id", "fence", "owner", "by", "reason",
    ]  # fmt: skip
    assert [(row["event"], row["messages"]) for row in rows] == [
        ("published", 2), ("claimed", 2), ("acked", 1), ("nacked", 1), ("claimed", 1), ("nacked", 1), ("dead", 1),
        ("deleted", 1),
    ]  # fmt: skip
    published, claimed, acked, nacked, *_, deleted = rows
    assert (published["by"], published["message_ids"], published["lease_id"]) == ("alice", [first, second], None)
    assert (claimed["lease_id"], claimed["owner"], claimed["message_ids"]) == ("job", "host-1", [first, second])
    assert (acked["message_ids"], acked["fence"]) == ([first], claimed["fence"])
    assert (nacked["reason"], nacked["message_ids"], nacked["by"]) == ("it broke", [], None)
    assert (deleted["by"], deleted["message_ids"]) == ("alice", [second])
    assert {row["queue"] for row in rows} == {"q"}
    times = [datetime.fromisoformat(row["at"]) for row in rows]
    assert all(since - timedelta(minutes=1) < at <= since for at in times)
    assert (made.rows, made.last) == (8, rows[-1]["entry_id"])


def test_memory_does_not_grow_with_the_journal(redis_client: redis.Redis, server_url: str, tmp_path: Path) -> None:
    peaks = []
    with LeasedQueue(server_url, "q", JOURNAL) as queue:
        for count in (10, 250, 750):  # of 200 ids
            many(redis_client, count, " ".join(f"m-{n}" for n in range(200)))
            tracemalloc.start()
            written(queue, tmp_path / f"{count}.ndjson")
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[2] < 1.3 * peaks[1], peaks


def test_the_next_export_goes_on_where_the_last_one_ended(
    redis_client: redis.Redis, server_url: str, tmp_path: Path
) -> None:
    del redis_client
    with LeasedQueue(server_url, "q", JOURNAL) as queue:
        played(queue)
        last = written(queue, tmp_path / "1.ndjson").last
        nothing = written(queue, tmp_path / "2.ndjson", last)
        queue.publish("c")
        more = written(queue, tmp_path / "3.ndjson", last)
    assert (nothing.rows, nothing.last, more.rows) == (0, last, 1)
    assert (tmp_path / "2.ndjson").read_text() == ""


def test_a_file_is_complete_or_absent_and_never_overwritten(
    redis_client: redis.Redis, server_url: str, tmp_path: Path
) -> None:
    del redis_client
    path = tmp_path / "q.jsonl"
    with LeasedQueue(server_url, "q", JOURNAL) as queue:
        played(queue)
        with pytest.raises(RuntimeError, match="interrupted"):
            JournalExport(queue).write(into_file(path), _interrupted)
        assert list(tmp_path.iterdir()) == []
        written(queue, path)
        before = path.read_bytes()
        with pytest.raises(ConfigurationError, match="exists"):
            written(queue, path)
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])


def _interrupted(_: int) -> None:
    raise RuntimeError("interrupted")


def test_names_and_disciplines_without_a_journal_are_refused(redis_client: redis.Redis, server_url: str) -> None:
    del redis_client
    for name in ("journal", "journal.parquet", ".ndjson"):
        with pytest.raises(ConfigurationError, match=r"\.ndjson or \.jsonl"), into_file(Path(name)):
            pass
    with ReliableQueue(server_url, "q") as queue, pytest.raises(Unsupported, match="use leased"):
        JournalExport(queue)
