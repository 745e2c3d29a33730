"""`rmq export`, `rmq import`, `rmq pause` and `rmq resume`, as commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Rmq = Callable[..., Any]


@pytest.fixture
def export(rmq: Rmq) -> bytes:
    """The export of a paused queue of 2,500 messages."""
    rmq("publish", "q", stdin=b"".join(b"m%d\n" % number for number in range(2500)))
    rmq("publish", "q", "later", "--delay", "1000")
    assert rmq("pause", "q").out == "q is paused\n"
    ran = rmq("export", "q")
    assert ran.code == 0
    assert "exported 2,501 messages (1 delayed, 2,500 ready) of q" in ran.err
    return str(ran.out).encode()


@pytest.fixture
def file(export: bytes, tmp_path: Path) -> str:
    """That export as a file."""
    (tmp_path / "q.ndjson").write_bytes(export)
    return str(tmp_path / "q.ndjson")


def ready(rmq: Rmq, queue: str) -> int:
    return int(rmq("stats", queue, "--json").records[0]["ready"])


def test_a_file_is_imported_into_a_new_queue_once(rmq: Rmq, file: str) -> None:
    ran = rmq("import", "target", file)
    assert (ran.code, ran.out) == (0, "imported 2,501 messages (1 delayed, 2,500 ready) into target (leased)\n")
    assert rmq("import", "target", file).out == "imported 0 messages into target (leased); 2,501 were imported before\n"
    assert ready(rmq, "target") == 2500
    assert rmq("import", "target", file, "--as", "again").code == 0
    assert ready(rmq, "target") == 5000


def test_the_report_of_an_export_as_json_goes_to_stderr(rmq: Rmq, export: bytes) -> None:
    del export
    ran = rmq("export", "q", "--json", "--state", "ready")
    assert len(ran.records) == 2502
    assert json.loads(ran.err) == {
        "queue": "q", "exported": 2500, "states": {"ready": 2500}, "held": 0, "changed": False,
    }  # fmt: skip


def test_an_error_in_the_last_line_of_a_file_leaves_the_target_as_it_was(
    rmq: Rmq, export: bytes, tmp_path: Path
) -> None:
    lines = export.splitlines(keepends=True)
    broken = tmp_path / "broken"
    for text, code, named in (
        (b"".join(lines[:-1]), 1, "truncated: it ends after 2,501 messages and has no last line; nothing was imported"),
        (
            b"".join([*lines[:-2], lines[-1]]),
            1,
            "altered: its last line states 2,501 messages, and these 2,500",
        ),
        (b"".join([*lines[:-2], b"{}\n", lines[-1]]), 2, "line 2502: state must be one of"),
        (b"nothing", 1, "line 1 is not the header of an export"),
    ):
        broken.write_bytes(text)
        ran = rmq("import", "target", str(broken))
        assert ran.code == code
        assert named in ran.err
    assert "target" not in rmq("queues", "list").out
    broken.write_bytes(b"".join([*lines[:5], lines[-1]]))
    assert rmq("import", "target", str(broken), "--edited").code == 0
    assert ready(rmq, "target") == 3


def test_a_pipe_that_breaks_off_is_imported_so_far_and_completed_by_the_next_run(rmq: Rmq, export: bytes) -> None:
    ran = rmq("import", "target", stdin=export[: len(export) // 2])
    assert ran.code == 1
    assert "run this again with the whole file to import the rest, as 'q.leased'" in ran.err
    stored = ready(rmq, "target")
    assert 1000 < stored < 1500
    assert f"{stored + 1:,} were imported before" in rmq("import", "target", stdin=export).out
    assert ready(rmq, "target") == 2500


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--state", "gone"], "--state must be one of leased"),
        (["/nowhere"], "FILE /nowhere: No such file"),
    ],
)
def test_a_wrong_parameter_is_named(rmq: Rmq, export: bytes, words: list[str], named: str) -> None:
    ran = rmq("import", "target", *words, stdin=export)
    assert ran.code == 2
    assert named in ran.err


def test_a_move_removes_exactly_what_was_exported(rmq: Rmq, file: str) -> None:
    rmq("import", "new", file)
    rmq("publish", "q", "m7", "published meanwhile")  # one with a payload that the export has, too
    assert rmq("purge", "q", "--exported", file).code == 2  # nobody confirms
    moved = rmq("purge", "q", "--exported", file, "--yes")
    assert (moved.code, moved.out) == (0, "purged 2,501 delayed or ready messages of q\n")
    assert [each["payload"] for each in rmq("peek", "q", "--json").records] == ["m7", "published meanwhile"]
    again = rmq("purge", "q", "--exported", file, "--yes")
    assert again.code == 1
    assert "2,501 messages" in again.err
    assert (ready(rmq, "q"), ready(rmq, "new")) == (2, 2500)


def test_a_truncated_export_removes_nothing(rmq: Rmq, export: bytes, tmp_path: Path) -> None:
    (tmp_path / "cut.ndjson").write_bytes(export[: len(export) // 2])
    assert "nothing was deleted" in rmq("purge", "q", "--exported", str(tmp_path / "cut.ndjson"), "--yes").err
    assert ready(rmq, "q") == 2500


def test_messages_in_a_state_are_deleted_and_a_purge_without_one_is_refused(rmq: Rmq, export: bytes) -> None:
    assert "--state, or --exported" in rmq("purge", "q", "--yes").err
    assert "`rmq dlq purge` deletes dead letters" in rmq("purge", "q", "--state", "dead", "--yes").err
    assert rmq("purge", "q", "--state", "ready", "--text", "m249", "--yes").out == "purged 11 ready messages of q\n"
    asked = rmq("purge", "q", "--state", "ready", "--state", "delayed")
    assert "Delete 2,490 ready or delayed messages of q (leased)" in asked.err
    assert rmq("purge", "q", "--state", "ready", "--yes").out == "purged 2,489 ready messages of q\n"
    assert rmq("stats", "q", "--json").records[0]["delayed"] == 1
