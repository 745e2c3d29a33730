from __future__ import annotations

import pytest

from rmq_core.envelope.reasons import LastFailure, generalized, group_of_reason, last_failure


@pytest.mark.parametrize(
    ("reason", "general"),
    [
        ("timeout after 3.5 s", "timeout after # s"),
        ("timeout after 12s", "timeout after #s"),
        ("row 1,234 of 5:06:07", "row # of #"),
        ("host 10.0.0.7:6379 refused", "host # refused"),
        ("order 7f9c3b1a-8a53-4f0e-9b1e-aabbccddeeff", "order #"),
        ("order 00000000-aaaa-bbbb-cccc-abcdefabcdef", "order #"),
        ("message a5395e75e868f1c6-a is bad", "message # is bad"),
        ("at 0xDEADBEEF", "at #"),
        ("commit 1f2e3d4c", "commit #"),
        ("part_12.csv", "part_#.csv"),
        ("bad face in cafe", "bad face in cafe"),
        ("already # here", "already # here"),
    ],
)
def test_numbers_and_ids_in_a_reason_are_replaced(reason: str, general: str) -> None:
    assert generalized(reason) == general
    assert generalized(general) == general


def test_the_group_of_a_reason_that_was_cut_off_is_its_beginning() -> None:
    long = ("order 7 " * 40)[:200]
    assert group_of_reason(long) == f"{('order # ' * 40)[:120]}*"
    assert group_of_reason("order 7") == "order #"


@pytest.mark.parametrize(
    ("history", "failure"),
    [
        (b"nack\t5\tme\tfirst\nnack\t6\tme\tlast\n", LastFailure("last", 6)),
        (b"nack\t6\tme\tlast\x1f2 15 2 2\n", LastFailure("last", 6)),
        (b"expired\t7\tme\t\n", LastFailure("expired", 7)),
        (b"", LastFailure("unknown", 0)),
        (b"damaged\n", LastFailure("unknown", 0)),
    ],
)
def test_the_last_failure_is_read_from_the_newest_line(history: bytes, failure: LastFailure) -> None:
    assert last_failure(history) == failure
