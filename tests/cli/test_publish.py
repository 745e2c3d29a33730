from __future__ import annotations

import base64
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rmq_core import LeasedQueue
from tests.payload_kinds import PUBLISHED, READ

Rmq = Callable[..., Any]


def test_a_new_queue_is_leased_by_default(rmq: Rmq) -> None:
    assert rmq("publish", "q", "a", "b").out == "published 2 to q (leased)\n"
    assert rmq("queues", "list", "--json").records == [{"queue": "q", "discipline": "leased"}]


def test_lines_of_a_file_are_payloads(rmq: Rmq, tmp_path: Path) -> None:
    (tmp_path / "work").write_text('{"a":1}\n[2]\n')
    assert rmq("publish", "q", "--file", str(tmp_path / "work"), "--json-payload").code == 0
    assert [record["payload"] for record in rmq("peek", "q", "--json").records] == [{"a": 1}, [2]]


def test_every_kind_of_payload_is_shown_as_it_is_read(rmq: Rmq, server_url: str) -> None:
    rmq("configure", "q", "compress_above=1KiB", "-d", "leased")
    with LeasedQueue(server_url, "q") as queue:
        queue.publish_many([*PUBLISHED, "word " * 1000])
    read = [each if not isinstance(each, bytes) else base64.b64encode(each).decode() for each in READ]
    records = rmq("peek", "q", "--json", "--count", "100").records
    assert [record.get("payload", record.get("payload_base64")) for record in records] == [*read, "word " * 1000]
    (found,) = rmq("search", "q", "--text", "word word", "--json").records
    assert found["payload"] == "word " * 1000


def test_any_json_but_null_is_a_payload(rmq: Rmq) -> None:
    assert rmq("publish", "q", "--json-payload", "7", "true", '"text"', "[1]").code == 0
    assert [record["payload"] for record in rmq("peek", "q", "--json").records] == [7, True, "text", [1]]
    refused = rmq("publish", "q", "--json-payload", "null")
    assert refused.code == 2
    assert "payload is None" in refused.err


def test_a_file_that_cannot_be_read_is_a_wrong_parameter(rmq: Rmq, tmp_path: Path) -> None:
    ran = rmq("publish", "q", "--file", str(tmp_path / "none"))
    assert (ran.code, ran.out) == (2, "")
    assert "No such file" in ran.err


def test_a_deduplication_key_is_accepted_once(rmq: Rmq) -> None:
    assert rmq("publish", "q", "a", "--dedup-key", "k").out == "published 1 to q (leased)\n"
    assert rmq("publish", "q", "b", "--dedup-key", "k").out == "published 0 to q (leased), 1 duplicate\n"


def test_settings_that_are_stored_with_the_queue_hold_for_commands(rmq: Rmq) -> None:
    assert rmq("configure", "q", "dedup=true").code == 2  # there is no such queue yet
    assert rmq("configure", "q", "dedup=true", "-d", "leased").out == "q stores dedup=true\n"
    rmq("publish", "q", "a")
    assert rmq("publish", "q", "a", "--json").records[0]["duplicates"] == 1


def test_stored_settings_are_shown_changed_and_removed(rmq: Rmq) -> None:
    rmq("publish", "q", "a")
    assert rmq("configure", "q").out == "q stores nothing\n"
    shown = rmq("configure", "q", "max_ready=9", "overflow=block 5", "journal=7d", "--json").records[0]
    assert shown["stored"] == {"journal": "604800s", "max_ready": 9, "overflow": "block 5"}
    assert (shown["in_force"]["max_ready"], shown["in_force"]["max_dead"], shown["differing"]) == (9, 100_000, [])
    assert rmq("configure", "q", "--reset", "overflow,journal").out == "q stores max_ready=9\n"


@pytest.mark.parametrize(
    ("setting", "says"),
    [("speed=3", "there is no speed"), ("overflow=block", "overflow must be"), ("lease=3", "each program's own")],
)
def test_a_setting_that_cannot_be_stored_is_refused(rmq: Rmq, setting: str, says: str) -> None:
    rmq("publish", "q", "a")
    ran = rmq("configure", "q", setting)
    assert ran.code == 2
    assert says in ran.err


def test_headers_and_delays_reach_the_message(rmq: Rmq) -> None:
    rmq("publish", "q", "a", "-H", "source=nyc=1")
    rmq("publish", "q", "later", "--delay", "60")
    assert rmq("peek", "q", "--json").records[0]["headers"] == {"source": "nyc=1"}
    assert rmq("stats", "q", "--json").records[0]["delayed"] == 1


def test_a_full_queue_has_an_exit_code_and_reports_how_much_was_stored(rmq: Rmq) -> None:
    rmq("publish", "q", "a", "b")
    rmq("configure", "q", "max_ready=2")
    ran = rmq("publish", "q", "c")
    assert ran.code == 4
    assert "stored before that: 0" in ran.err


@pytest.mark.parametrize("expires", ["0.001", "1ms", "2020-01-01T12:00+02:00"])
def test_a_message_that_nobody_claims_in_time_is_a_dead_letter_that_says_so(rmq: Rmq, expires: str) -> None:
    assert "groups='fair'" in rmq("publish", "q", "a", "--expires", "1h").err
    assert rmq("configure", "q", "groups=fair", "--discipline", "leased").code == 0
    rmq("publish", "q", "a", "--expires", expires)
    rmq("publish", "q", "b", "--expires", "1h")
    time.sleep(0.005)
    assert rmq("consume", "q").out == "b\n"
    assert "expired while it waited" in rmq("dlq", "list", "q").out
    (reason,) = rmq("dlq", "reasons", "q", "--json").records
    assert (reason["reason"], reason["count"]) == ("expired while it waited", 1)
    assert "--expires: write seconds" in rmq("publish", "q", "a", "--expires", "soon").err
    refused = rmq("publish", "other", "x", "--expires", "1h", "--discipline", "jobs")
    assert "has no groups, priorities, publications or expiry; use leased" in refused.err


def test_a_message_takes_the_place_of_one_with_its_key_that_waits(rmq: Rmq) -> None:
    assert "needs groups" in rmq("configure", "q", "on_duplicate=replace", "--discipline", "leased").err
    wanted = ("groups=fair", "dedup_until=settled", "on_duplicate=replace")
    assert rmq("configure", "q", *wanted, "--discipline", "leased").code == 0
    rmq("publish", "q", "old", "--dedup-key", "k")
    rmq("publish", "q", "other")
    assert (
        "published 1 to q (leased), 1 in the place of earlier ones"
        in rmq("publish", "q", "new", "--dedup-key", "k").out
    )
    (report,) = rmq("publish", "q", "newest", "--dedup-key", "k", "--json").records
    assert (report["accepted"], report["duplicates"], report["replaced"]) == (1, 0, 1)
    assert rmq("consume", "q", "--max", "2").out == "newest\nother\n"


def test_a_message_is_published_to_a_group_with_a_priority(rmq: Rmq) -> None:
    rmq("publish", "q", "a", "b", "--group", "tenant-7")
    assert rmq("configure", "q", "groups=fair").code == 0
    rmq("publish", "q", "now", "--group", "tenant-8", "--priority", "9")
    group, _ = rmq("groups", "q", "--json").records
    assert (group["name"], group["waiting"], group["ready"]) == ("tenant-7", 2, True)
    assert "tenant-7" in rmq("groups", "q").out
    assert rmq("consume", "q").out.splitlines() == ["now", "a", "b"]
    refused = rmq("publish", "other", "x", "--group", "a", "--discipline", "streams")
    assert refused.code != 0
    assert "the discipline 'streams' has no group" in refused.err


def test_a_publication_is_counted_until_its_end(rmq: Rmq) -> None:
    refused = rmq("publish", "q", "a", "--publication", "report")
    assert refused.code == 2
    assert "has no groups" in refused.err
    rmq("configure", "q", "groups=fair", "-d", "leased")
    assert "no publications" in rmq("publications", "q").out
    assert rmq("publish", "q", "a", "b", "--publication", "report").code == 0
    late = rmq("publication", "q", "report", "--wait", "0.1")
    assert late.code == 1
    assert "report" in late.out
    assert rmq("publication", "q", "report").code == 0
    rmq("consume", "q", "--max", "1")
    (record,) = rmq("publications", "q", "--json").records
    assert (record["name"], record["messages"], record["waiting"], record["acked"]) == ("report", 2, 1, 1)
    assert record["ended"] is None
    rmq("consume", "q")
    ended = rmq("publication", "q", "report", "--wait", "1m", "--json")
    assert (ended.code, ended.records[0]["acked"], ended.records[0]["dead"]) == (0, 2, 0)
    assert ended.records[0]["ended"][:10] == str(datetime.now(UTC))[:10]
    rmq("publish", "jobs", "x", "-d", "jobs")
    assert "has no publications" in rmq("publications", "jobs").err
    assert rmq("publication", "jobs", "report").code == 2
    assert "--wait: write seconds, or a duration as 10m" in rmq("publication", "q", "report", "--wait", "long").err
