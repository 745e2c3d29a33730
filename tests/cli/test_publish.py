from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Rmq = Callable[..., Any]


def test_a_new_queue_is_leased_by_default(rmq: Rmq) -> None:
    assert rmq("publish", "q", "a", "b").out == "published 2 to q (leased)\n"
    assert rmq("queues", "list", "--json").records == [{"queue": "q", "discipline": "leased"}]


def test_lines_of_a_file_are_payloads(rmq: Rmq, tmp_path: Path) -> None:
    (tmp_path / "work").write_text('{"a":1}\n[2]\n')
    assert rmq("publish", "q", "--file", str(tmp_path / "work"), "--json-payload").code == 0
    assert [record["payload"] for record in rmq("peek", "q", "--json").records] == [{"a": 1}, [2]]


def test_a_file_that_cannot_be_read_is_a_wrong_parameter(rmq: Rmq, tmp_path: Path) -> None:
    ran = rmq("publish", "q", "--file", str(tmp_path / "none"))
    assert (ran.code, ran.out) == (2, "")
    assert "No such file" in ran.err


def test_a_deduplication_key_is_accepted_once(rmq: Rmq) -> None:
    assert rmq("publish", "q", "a", "--dedup-key", "k").out == "published 1 to q (leased)\n"
    assert rmq("publish", "q", "b", "--dedup-key", "k").out == "published 0 to q (leased), 1 duplicate\n"


def test_settings_of_the_discipline_can_be_set(rmq: Rmq) -> None:
    rmq("publish", "q", "a", "--set", "dedup=true")
    assert rmq("publish", "q", "a", "--set", "dedup=true", "--json").records[0]["duplicates"] == 1


def test_an_unknown_setting_is_refused_with_the_known_ones(rmq: Rmq) -> None:
    ran = rmq("publish", "q", "a", "--set", "speed=3")
    assert ran.code == 2
    assert "leased has no speed; it has backoff, " in ran.err


def test_a_setting_that_no_text_can_give_is_refused(rmq: Rmq) -> None:
    ran = rmq("publish", "q", "a", "--set", "max_ready=1", "--set", "overflow=block")
    assert ran.code == 2
    assert "overflow must be an Overflow" in ran.err


def test_headers_and_delays_reach_the_message(rmq: Rmq) -> None:
    rmq("publish", "q", "a", "-H", "source=nyc=1")
    rmq("publish", "q", "later", "--delay", "60")
    assert rmq("peek", "q", "--json").records[0]["headers"] == {"source": "nyc=1"}
    assert rmq("stats", "q", "--json").records[0]["delayed"] == 1


def test_a_full_queue_has_an_exit_code_and_reports_how_much_was_stored(rmq: Rmq) -> None:
    rmq("publish", "q", "a", "b", "--set", "max_ready=2")
    ran = rmq("publish", "q", "c", "--set", "max_ready=2")
    assert ran.code == 4
    assert "stored before that: 0" in ran.err
