"""`rmq journal export`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from rmq_core import LeasedConfig, LeasedQueue

Rmq: TypeAlias = Callable[..., Any]
JOURNAL = LeasedConfig(journal=100)


def test_a_journal_is_exported_to_a_file_and_the_next_export_goes_on_there(
    rmq: Rmq, server_url: str, tmp_path: Path
) -> None:
    with LeasedQueue(server_url, "orders", JOURNAL) as queue:
        queue.publish("a")
        queue.ack(queue.claim(owner="host-1"))
        first, more = tmp_path / "1.jsonl", tmp_path / "2.ndjson"
        ran = rmq("journal", "export", "orders", "--to", str(first))
        assert "exported 3 rows of the journal of orders; the next export goes on with --after " in ran.err
        rows = [json.loads(line) for line in first.read_text().splitlines()]
        assert [row["event"] for row in rows] == ["published", "claimed", "acked"]
        queue.publish("b")
    (done,) = rmq("journal", "export", "orders", "--to", str(more), "--after", rows[-1]["entry_id"], "--json").records
    (row,) = (json.loads(line) for line in more.read_text().splitlines())
    assert (row["event"], done) == ("published", {"queue": "orders", "exported": 1, "last": row["entry_id"]})


def test_without_a_file_the_rows_go_to_stdout(rmq: Rmq, server_url: str) -> None:
    with LeasedQueue(server_url, "orders", JOURNAL) as queue:
        queue.publish("a")
    ran = rmq("journal", "export", "orders", "--json")
    assert [row["event"] for row in ran.records] == ["published"]
    assert json.loads(ran.err)["exported"] == 1


def test_what_cannot_be_exported_is_said(rmq: Rmq, server_url: str, tmp_path: Path) -> None:
    with LeasedQueue(server_url, "orders") as queue:
        queue.publish("a")
    assert "it has no journal" in rmq("journal", "export", "orders").err
    wrong = rmq("journal", "export", "orders", "--to", str(tmp_path / "journal.csv"))
    assert (wrong.code, "must end in .ndjson" in wrong.err) == (2, True)
    wrong = rmq("journal", "export", "orders", "--after", "yesterday")
    assert (wrong.code, "must be the id of an entry" in wrong.err) == (2, True)
    rmq("publish", "work", "a", "-d", "rotation")
    wrong = rmq("journal", "export", "work")
    assert (wrong.code, "use leased" in wrong.err) == (2, True)
