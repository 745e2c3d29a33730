from __future__ import annotations

import pickle
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from rmq_core import Lease, RedisSettings
from rmq_core.envelope.arrow import _batch, table_of
from rmq_core.envelope.codec import Columns, body, message_of, stamp
from rmq_spark.read.lease import (
    FETCH,
    LeaseReader,
    LeaseSlice,
    _fetched,
    chunks,
    plan,
)
from rmq_spark.schema import (
    BROWSE_SCHEMA,
    MESSAGE_SCHEMA,
    BrowsedMessage,
    arrow_schema,
    browsed_batch,
    browsed_row,
    leased_batch,
)

HEADERS = b'{"source":"test"}'


def columns(*payloads: bytes, headers: tuple[bytes, ...] = (HEADERS,)) -> Columns:
    count = len(payloads)
    given = headers * (count // len(headers))
    return Columns([b"id-1"] * count, payloads, given, [2] * count, [1_700_000_000_123] * count, range(count))


def record_batch(fields: Columns, lease: str, queue: str) -> Any:
    return leased_batch(_batch(fields, lease, queue))


@pytest.mark.parametrize(("count", "parts"), [(0, 4), (1, 4), (3, 4), (4, 4), (10, 3), (1000, 7)])
def test_slices_cover_every_message_once(count: int, parts: int) -> None:
    pieces = chunks(range(count), parts)
    assert [index for piece in pieces for index in piece] == list(range(count))
    assert len(pieces) == min(count, parts)
    sizes = [len(piece) for piece in pieces]
    assert sum(sizes) == count
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


def test_slices_of_a_partly_settled_lease_cover_the_rest() -> None:
    lease = Lease("work", "lease-1", "", 30, None, "7.token")
    slices = plan(Queue(10, left=[0, 1, 5, 6, 7, 20]), lease, info(6), 2)  # type: ignore[arg-type]
    assert [(piece.lo, piece.hi, piece.unsettled) for piece in slices] == [(0, 6, 3), (6, 21, 3)]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ((b"",), [{}, {}]),
        ((HEADERS,), [{"source": "test"}] * 2),
        ((b"", HEADERS), [{}, {"source": "test"}]),
        ((b'{"a":"1","b":"2"}',), [{"a": "1", "b": "2"}] * 2),
        (
            (rb'{"a":"\ud83d","\ude00":1.5}', rb'{"a":[null,"\ud83d"],"b":null}'),
            [{"a": "?", "?": "1.5"}, {"a": r'[null,"\ud83d"]', "b": "null"}],
        ),
    ],
)
def test_headers_become_maps(headers: tuple[bytes, ...], expected: list[dict[str, str]]) -> None:
    batch = record_batch(columns(b"x", b"y", headers=headers), "lease-1", "work")
    stored = [stamp(1) + body("id", "b", b"x", each) for each in headers * (2 // len(headers))]
    seen = [BrowsedMessage(message_of(envelope), "ready", "work") for envelope in stored]
    for found, schema in ((batch, MESSAGE_SCHEMA), (browsed_batch(list(map(browsed_row, seen))), BROWSE_SCHEMA)):
        assert [dict(row["headers"]) for row in found.to_pylist()] == expected
        assert found.schema.equals(arrow_schema(schema))


def test_a_reader_travels_without_the_messages_of_its_lease() -> None:
    lease = Lease("work", "lease-1", "", 1, None, "7.token", envelopes=(b"x" * 100_000,))
    slices = plan(Queue(10), lease, info(0), 1)  # type: ignore[arg-type]
    pickled = pickle.dumps(LeaseReader(RedisSettings.from_url("redis://h"), slices))
    assert len(pickled) < 5_000
    (piece,) = pickle.loads(pickled).partitions()
    assert piece.lease.token == "7.token"
    assert "token" not in repr(piece)


def info(settled: int) -> Any:
    return SimpleNamespace(settled=settled)


class Queue:
    """A queue that records which slices were requested; every third message is left, of `size` bytes."""

    name = "work"

    def __init__(self, size: int, left: Sequence[int] = ()) -> None:
        self.size = size
        self.left = left
        self.asked: list[tuple[int, int]] = []

    def messages(self, lease: Lease) -> list[Any]:
        return [SimpleNamespace(index=index) for index in self.left]

    def read_arrow(self, lease: Lease, lo: int, hi: int) -> Any:
        self.asked.append((lo, hi))
        found = columns(*[b"x" * self.size for at in range(lo, hi) if at % 3 == 0])
        return table_of([_batch(found, lease.id, self.name)])


@pytest.mark.parametrize(("size", "largest"), [(10, FETCH), (1 << 20, 8)])
def test_a_slice_is_fetched_without_gaps_in_steps_of_bounded_size(size: int, largest: int) -> None:
    queue = Queue(size)
    lease = Lease("work", "lease-1", "", 40_000, None, "7.token")
    part = LeaseSlice(100, 800 if size > 10 else 40_000, 0, lease)
    rows = sum(batch.num_rows for batch in _fetched(queue, part))  # type: ignore[arg-type]
    assert rows == len([at for at in range(part.lo, part.hi) if at % 3 == 0])
    assert [lo for lo, _ in queue.asked[1:]] == [hi for _, hi in queue.asked[:-1]]
    assert queue.asked[-1][1] == part.hi
    assert max(hi - lo for lo, hi in queue.asked[1:]) <= largest
