from __future__ import annotations

import itertools

from rmq_core.chunks import chunks


def test_a_chunk_has_at_most_a_thousand_items() -> None:
    assert [len(chunk) for chunk in chunks(range(2500), lambda _: 1)] == [1000, 1000, 500]


def test_a_chunk_has_at_most_four_mebibytes_unless_one_item_is_larger() -> None:
    sizes = [3 << 20, 1 << 20, 1, 9 << 20, 1]
    assert list(chunks(sizes, lambda size: size)) == [sizes[:2], [1], [9 << 20], [1]]


def test_order_is_kept_and_nothing_is_read_ahead() -> None:
    endless = chunks(itertools.count(), lambda _: 1)
    assert list(itertools.islice(endless, 2)) == [list(range(1000)), list(range(1000, 2000))]


def test_nothing_makes_no_chunk() -> None:
    assert list(chunks([], len)) == []
