from __future__ import annotations

import pytest

from rmq_core import ConfigurationError, Match
from rmq_core.envelope import codec
from rmq_core.envelope.matching import LastFailure, generalized, group_of_reason, last_failure


def stored(payload: str = "text", history: bytes = b"", headers: bytes = b"", message_id: str = "id-1") -> bytes:
    body = codec.body(message_id, "s", payload.encode(), headers)
    return b"1 1500 %d %b%b" % (len(history), history, body)


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


@pytest.mark.parametrize(
    ("where", "met"),
    [
        (Match(text="ex"), True),
        (Match(text="EX"), False),
        (Match(text="tenant"), False),
        (Match(header="tenant"), True),
        (Match(header="tenant=acme"), True),
        (Match(header="tenant=ac"), False),
        (Match(message_id="id-1"), True),
        (Match(message_id="id-"), False),
        (Match(reason="timeout after # s"), True),
        (Match(reason="timeout after 99 s"), True),
        (Match(reason="timeout"), False),
        (Match(reason="time*s"), True),
        (Match(reason="timeout after # s", text="ex", header="tenant", message_id="id-1"), True),
        (Match(reason="timeout after # s", text="nothing"), False),
    ],
)
def test_a_stored_and_a_decoded_message_meet_the_same_conditions(where: Match, *, met: bool) -> None:
    envelope = stored(history=b"nack\t5\tme\ttimeout after 3 s\n", headers=b'{"tenant":"acme"}')
    assert where.of_envelope(envelope) is met
    assert where.matches(codec.message_of(envelope)) is met


def test_a_message_without_headers_meets_no_condition_on_a_header() -> None:
    assert not Match(header="tenant").of_envelope(stored())


def test_text_that_is_no_message_meets_no_condition() -> None:
    assert not Match(text="e").of_envelope(b"no envelope")
    assert not Match(message_id="e").of_envelope(b"no envelope")


@pytest.mark.parametrize("given", [{}, {"text": ""}, {"reason": 7}, {"header": b"x"}])
def test_conditions_that_say_nothing_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        Match(**given)  # type: ignore[arg-type]
