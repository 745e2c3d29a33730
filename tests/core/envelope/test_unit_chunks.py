from __future__ import annotations

import itertools

import pytest

from rmq_core.envelope.codec import chunks, each
from rmq_core.errors import PayloadTooLarge


def test_a_chunk_has_at_most_a_thousand_items() -> None:
    assert [len(chunk) for chunk in chunks(range(2500), lambda _: 1)] == [1000, 1000, 500]


def test_a_chunk_has_at_most_four_mebibytes_unless_one_item_is_larger() -> None:
    sizes = [3 << 20, 1 << 20, 1, 9 << 20, 1]
    assert list(chunks(sizes, lambda size: size)) == [sizes[:2], [1], [9 << 20], [1]]


def test_order_is_kept_and_nothing_is_read_ahead() -> None:
    endless = chunks(itertools.count(), lambda _: 1)
    assert list(itertools.islice(endless, 2)) == [list(range(1000)), list(range(1000, 2000))]


def refused(number: int) -> int:
    if number == 13:
        raise PayloadTooLarge("payload has 13 bytes")
    return number


def test_a_payload_that_cannot_be_stored_is_named_by_its_place() -> None:
    made = each(refused, itertools.count(10), first=1000)
    assert list(itertools.islice(made, 3)) == [10, 11, 12]
    with pytest.raises(PayloadTooLarge, match=r"^payloads\[1003\]: payload has 13 bytes$") as caught:
        next(made)
    assert caught.value.index == 1003
