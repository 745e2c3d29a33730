"""Export and import of a leased queue, driven by hand."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_core.discipline.leased.operations.moving import export_page, import_chunk, import_entry
from rmq_core.envelope.stored import StoredMessage
from rmq_core.errors import ImportConflict, PayloadError, QueueFull, ScriptFailed, Unsupported
from rmq_core.queue.moving import ImportEntry
from tests.unit.leased.by_hand import asked, engine, envelopes

A, B = envelopes(2)
HISTORY = b"nack\t1\tme\t\x1f2 7 3 1\n"
SUSPECT = b"2 1000 %d " % len(HISTORY) + HISTORY + b"m s0 x"


def test_a_state_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Unsupported, match="no gone messages"):
        asked(export_page(engine(), "gone"))


def test_what_consumers_could_not_read_is_refused() -> None:
    with pytest.raises(PayloadError, match="a JSON scalar, which only jobs"):
        import_entry(StoredMessage("ready", b"0 1 0 m j0 5"))
    with pytest.raises(PayloadError, match="id has 600 characters"):
        import_entry(StoredMessage("ready", b"0 1 0 " + b"m" * 600 + b" s0 x"))


def chunk(*replies: Any, entries: list[ImportEntry] | None = None) -> list[Any]:
    found = [ImportEntry("isolated", (-7, SUSPECT), 1, 7)] if entries is None else entries
    return asked(import_chunk(engine(max_ready=5, max_dead=6), "a", "old", "new", found), *replies)


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
