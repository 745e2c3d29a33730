"""Export and import of a leased queue, driven by hand."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_core.discipline.leased.operations.moving import export_page, import_chunk, import_entry
from rmq_core.envelope.stored import StoredMessage
from rmq_core.errors import ImportConflict, PayloadError, QueueFull, ScriptFailed, Unsupported
from rmq_core.exchange import Command
from rmq_core.queue.moving import ImportEntry, import_progress
from tests.unit.leased.by_hand import asked, drive, engine, envelopes, given, result, scripts

A, B = envelopes(2)
HISTORY = b"nack\t1\tme\t\x1f2 7 3 1\n"
SUSPECT = b"2 1000 %d " % len(HISTORY) + HISTORY + b"m s0 x"


@pytest.mark.parametrize(("state", "key", "side"), [("ready", b"ready", "left"), ("dead", b"dead", "right")])
def test_a_page_of_a_list_says_where_the_next_one_begins(state: str, key: bytes, side: str) -> None:
    page, (call,) = drive(export_page(engine(), state), [[0, [A, B]]])
    assert given(call, "list", "side", "offset", "last") == [b"rmq:{q}:" + key, side, 0, ""]
    assert page.messages == [StoredMessage(state, A), StoredMessage(state, B)]
    assert not page.moved
    after, (call,) = drive(export_page(engine(), state, page.cursor), [[1, []]])
    assert given(call, "offset", "last") == [2, page.cursor[1]]
    assert (after.messages, after.cursor, after.moved) == ([], None, True)


@pytest.mark.parametrize(("state", "bounds"), [("delayed", ["0", "+inf"]), ("isolated", ["-inf", "(0"])])
def test_a_page_of_delayed_messages_goes_on_behind_its_last_member(state: str, bounds: list[str]) -> None:
    page, (call,) = drive(export_page(engine(), state), [[0, [A, B], [b"5000", b"6000"]]])
    assert given(call, "set", "low", "high", "last") == [b"rmq:{q}:delayed", *bounds, b""]
    assert [message.due_ms for message in page.messages] == ([5000, 6000] if state == "delayed" else [None, None])
    (call,) = asked(export_page(engine(), state, page.cursor), [0, [], []])
    assert given(call, "last", "last_score") == [B, b"6000"]


def test_leased_messages_are_read_lease_by_lease_without_publications() -> None:
    info = [b"me", b"held", b"1", 0, b"9000", 2, 0, b"7", 0, 0]
    first, wants = drive(
        export_page(engine(), "leased"), [[b"load", b"~+publication"], [info], [b"read", 0, 0, b"\x80", [A, B]]]
    )
    assert wants[0] == Command(("ZRANGE", b"rmq:{q}:leases", 0, -1))
    assert first.messages == [StoredMessage("leased", B, None, "load", "me")]
    gone = result(export_page(engine(), "leased", first.cursor), [None])
    assert gone.messages == []
    assert result(export_page(engine(), "leased", gone.cursor)).cursor is None


def test_a_state_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Unsupported, match="no gone messages"):
        asked(export_page(engine(), "gone"))


@pytest.mark.parametrize(
    ("message", "entry"),
    [
        (StoredMessage("ready", A), ImportEntry("ready", (A,), len(A))),
        (StoredMessage("leased", A), ImportEntry("ready", (A,), len(A))),
        (StoredMessage("dead", A), ImportEntry("dead", (A,), len(A))),
        (StoredMessage("delayed", A, 5000), ImportEntry("delayed", (5000, A), len(A))),
        (StoredMessage("isolated", A), ImportEntry("ready", (A,), len(A))),
        (StoredMessage("isolated", SUSPECT), ImportEntry("isolated", (-7, SUSPECT), len(SUSPECT), 7)),
        (StoredMessage("delayed", SUSPECT, 5), ImportEntry("delayed", (5, SUSPECT), len(SUSPECT), 7)),
    ],
)
def test_a_message_is_prepared_for_its_place(message: StoredMessage, entry: ImportEntry) -> None:
    assert import_entry(engine(), message) == entry


def test_what_consumers_could_not_read_is_refused() -> None:
    with pytest.raises(PayloadError, match="a JSON scalar, which only jobs"):
        import_entry(engine(), StoredMessage("ready", b"0 1 0 m j0 5"))
    with pytest.raises(PayloadError, match="id has 600 characters"):
        import_entry(engine(), StoredMessage("ready", b"0 1 0 " + b"m" * 600 + b" s0 x"))


def chunk(*replies: Any, entries: list[ImportEntry] | None = None) -> list[Any]:
    found = [ImportEntry("isolated", (-7, SUSPECT), 1, 7)] if entries is None else entries
    return asked(import_chunk(engine(max_ready=5, max_dead=6), "a", "old", "new", found), *replies)


def test_a_chunk_carries_its_progress_and_the_fence_of_its_groups() -> None:
    (call,) = chunk(b"imported")
    assert given(call, "progress", "before", "after", "keep_ms") == [b"rmq:{q}:import:a", "old", "new", 604_800_000]
    assert given(call, "state", "messages", "least_fence") == ["isolated", (-7, SUSPECT), 4]
    assert given(call, "max_ready", "max_dead") == [5, 6]
    (call,) = chunk(b"imported", entries=[])
    assert given(call, "state", "messages") == ["ready", ()]


@pytest.mark.parametrize(
    ("reply", "error", "named"),
    [
        (b"elsewhere", ImportConflict, "another import 'a' into 'q' is running"),
        (b"full max_dead", QueueFull, "--set max_dead=NUMBER"),
        (b"superseded", ScriptFailed, "superseded"),
    ],
)
def test_a_chunk_that_was_not_stored_is_an_error(reply: bytes, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        chunk(reply)


def test_the_queue_is_registered_before_its_first_message() -> None:
    wants = asked(import_chunk(engine(registered=False), "a", "", "x", []), 1, b"imported")
    assert wants[0] == Command(("SADD", b"rmq:queues", "q"), aside=True)
    assert scripts(wants) == ["import"]


def test_the_progress_is_read_with_the_time_of_the_server() -> None:
    assert result(import_progress(engine(), "a"), [b"open 1 1 - -", 5]) == ("open 1 1 - -", 5)
