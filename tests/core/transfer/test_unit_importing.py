"""An import, driven with a queue that only remembers what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from rmq_core.envelope import codec
from rmq_core.envelope.export_record import StoredMessage
from rmq_core.errors import ExportDamaged, ImportConflict, PayloadError, QueueFull
from rmq_core.kernel.base import tools_of
from rmq_core.kernel.transfer import Importable, ImportEntry
from rmq_core.leased import transfer
from rmq_core.leased.config import CAPABILITIES, LeasedConfig
from rmq_core.transfer.exporting import Digest, ExportFile, Footer, Header, footer_line, header_line, message_line
from rmq_core.transfer.importing import Import, ImportOptions, ImportProgress


class Stored(NamedTuple):
    """A chunk that the queue was given."""

    before: str
    after: str
    state: str
    ids: list[str]


class Remembering(Importable):
    """As much of a queue as an import needs. It has room for `room` chunks."""

    name, discipline, capabilities = "q", "leased", CAPABILITIES
    room = 1000

    def __init__(self, **settings: Any) -> None:
        self.config, self.record = LeasedConfig(**settings), ""
        self.chunks: list[Stored] = []

    @property
    def _tools(self) -> Remembering:
        return self

    def import_progress(self, name: str) -> tuple[str, int]:
        del name
        return self.record, 5000

    _import_entry = staticmethod(transfer.import_entry)

    def import_chunk(self, name: str, before: str, after: str, entries: Sequence[ImportEntry]) -> None:
        del name
        assert before == self.record
        if len(self.chunks) >= self.room:
            raise QueueFull("no room")
        ids = [codec.split(entry.args[-1]).id for entry in entries if isinstance(entry.args[-1], bytes)]
        self.chunks.append(Stored(before, after, entries[0].state if entries else "", ids))
        self.record = after

    @property
    def ids(self) -> list[str]:
        return [each for chunk in self.chunks for each in chunk.ids]


def message(number: int, state: str = "ready", size: int = 1) -> bytes:
    envelope = b"0 1000 0 m%d s0 %b" % (number, b"x" * size)
    return message_line(StoredMessage(state, envelope, 9000 if state == "delayed" else None))


def export(*lines: bytes, end: bool = True) -> list[bytes]:
    """The lines of a file."""
    digest = Digest()
    for line in lines:
        digest.add(line[:-1])
    footer = [footer_line(Footer(len(lines), {}, digest.text))] if end else []
    return [header_line(Header("q", "leased", "1", ["ready"], {})), *lines, *footer]


def imported(queue: Any, lines: Sequence[bytes], **options: Any) -> Any:
    return Import(queue, "a", ImportOptions(**options)).run(ExportFile(lines))


LINES = [message(number) for number in range(2500)]


def test_messages_are_stored_in_order_in_chunks_with_their_progress() -> None:
    queue = Remembering()
    report = imported(queue, export(*LINES))
    assert queue.ids == [f"m{number}" for number in range(2500)]
    assert [len(chunk.ids) for chunk in queue.chunks] == [1000, 1000, 500, 0]
    assert [ImportProgress.of(chunk.after)[:3] for chunk in queue.chunks] == [
        (False, 1000, 1000), (False, 2000, 2000), (False, 2500, 2500), (True, 2500, 2500),
    ]  # fmt: skip
    assert report == (2500, 0, 0, {"ready": 2500})


def test_a_chunk_holds_one_state_and_a_few_mebibytes() -> None:
    queue = Remembering()
    imported(queue, export(message(1, "delayed"), message(2), message(3, "dead"), message(4, "leased"), message(5)))
    assert [(chunk.state, chunk.ids) for chunk in queue.chunks[:-1]] == [
        ("delayed", ["m1"]), ("ready", ["m2"]), ("dead", ["m3"]), ("ready", ["m4", "m5"]),
    ]  # fmt: skip
    large = Remembering(max_payload_bytes=3 << 20)
    imported(large, export(*(message(number, size=3 << 20) for number in range(3))))
    assert [len(chunk.ids) for chunk in large.chunks] == [1, 1, 1, 0]


@pytest.mark.parametrize("room", [0, 1, 2, 3])
def test_a_run_that_was_interrupted_goes_on_behind_what_is_stored(room: int) -> None:
    queue = Remembering()
    queue.room = room
    with pytest.raises(QueueFull):
        imported(queue, export(*LINES))
    queue.room = 1000
    assert imported(queue, export(*LINES)).before == min(2500, 1000 * room)
    assert queue.ids == [f"m{number}" for number in range(2500)]


def test_a_finished_import_is_not_repeated() -> None:
    queue = Remembering()
    imported(queue, export(*LINES))
    chunks = len(queue.chunks)
    assert imported(queue, export(*LINES)) == (0, 2500, 0, {})
    assert len(queue.chunks) == chunks


def test_a_truncated_stream_is_imported_as_far_as_it_goes_and_later_completed() -> None:
    queue = Remembering()
    with pytest.raises(ExportDamaged, match=r"truncated: it ends after 1,500 messages .* run this again .* as 'a'"):
        imported(queue, [*export(*LINES[:1500], end=False), LINES[1500][:-5]])
    assert len(queue.ids) == 1500
    imported(queue, export(*LINES))
    assert queue.ids == [f"m{number}" for number in range(2500)]


@pytest.mark.parametrize(
    "other",
    [[message(9999), *LINES[1:]], [*LINES[:5], message(9999), *LINES[6:]], LINES[:500], [], LINES[:999] + LINES[1000:]],
    ids=["first line", "later line", "shorter", "empty", "a line left out"],
)
def test_another_file_than_the_one_begun_is_refused_before_anything_is_written(other: list[bytes]) -> None:
    queue = Remembering()
    queue.room = 1
    with pytest.raises(QueueFull):
        imported(queue, export(*LINES))
    queue.room = 1000
    with pytest.raises(ImportConflict, match=r"'a' into 'q' was begun with another file: 1,000 messages .* --as"):
        imported(queue, export(*other))
    assert len(queue.chunks) == 1


def test_only_the_chosen_states_are_imported_and_an_interrupted_run_still_goes_on() -> None:
    lines = [message(number, "dead" if number % 3 else "ready") for number in range(4000)]
    queue = Remembering()
    queue.room = 1
    with pytest.raises(QueueFull):
        imported(queue, export(*lines), states=frozenset({"ready"}))
    queue.room = 1000
    report = imported(queue, export(*lines), states=frozenset({"ready"}))
    assert queue.ids == [f"m{number}" for number in range(0, 4000, 3)]
    assert (report.imported, report.before) == (334, 3000)


@pytest.mark.parametrize(
    ("line", "error", "named"),
    [
        (b"{]\n", PayloadError, "line 4: it is no JSON"),
        (b"[1]\n", PayloadError, "line 4: it is no JSON object"),
        (b"\xff\n", PayloadError, "line 4: it is no JSON"),
        (message(3).replace(b"ready", b"gone"), PayloadError, "line 4: state must be"),
        (message(3, size=2 << 20), PayloadError, "line 4: payload has 2097152 bytes"),
    ],
)
def test_a_line_that_cannot_be_stored_is_named(line: bytes, error: type[Exception], named: str) -> None:
    queue, lines = Remembering(), export(*LINES[:2], line)
    with pytest.raises(error, match=named):
        Import(queue, "a").check(ExportFile(lines))
    with pytest.raises(error, match=named):
        imported(queue, lines)
    assert queue.chunks == []


def test_a_check_reads_everything_and_writes_nothing() -> None:
    queue = Remembering()
    assert Import(queue, "a").check(ExportFile(export(*LINES))) == (2500, 0, 0, {"ready": 2500})
    with pytest.raises(ExportDamaged, match="nothing was imported"):
        Import(queue, "a").check(ExportFile(export(*LINES, end=False)))
    assert queue.chunks == []


def test_a_message_without_a_time_counts_as_enqueued_at_the_import() -> None:
    queue = Remembering()
    line = message(1).replace(b',"enqueued_ms":1000', b"")
    entry = Import(queue, "a")
    given: list[Any] = []
    tools_of(queue).import_chunk = lambda *args: given.append(args)  # type: ignore[method-assign]
    entry.run(ExportFile(export(line)))
    assert given[0][3][0].args == (b"0 5000 0 m1 s0 x",)
