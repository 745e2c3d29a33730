from __future__ import annotations

from typing import Any

import pytest

from rmq_core import ConfigurationError, QueueFull, QueueUnavailable
from rmq_core.discipline.streams.engine import engine_of
from rmq_core.discipline.streams.operations import native
from rmq_core.errors import QueueError, ScriptFailed
from rmq_core.exchange import Listen
from rmq_core.streams import QueueConfig, QueueMessage
from tests.unit.streams.by_hand import drive, engine, entries, verbs

MESSAGE = QueueMessage("orders", "billing", "1-0", {})


def test_a_read_is_one_blocking_command() -> None:
    messages, wants = drive(native.read(engine()), entries(b'{"n":1}'))
    assert messages == [QueueMessage("orders", "billing", "1-0", {"n": 1})]
    args = ("XREADGROUP", "GROUP", "billing", "me", "COUNT", 1, "BLOCK", 70, "STREAMS", "orders", ">")
    assert wants == [Listen(args, 70)]


def test_only_the_first_call_creates_the_group() -> None:
    one = engine(known=False)
    assert verbs(drive(native.read(one), b"OK", None)[1]) == ["XGROUP", "XREADGROUP"]
    assert verbs(drive(native.read(one), None)[1]) == ["XREADGROUP"]


def test_an_existing_group_is_no_error_and_any_other_refusal_is_raised() -> None:
    one = engine(known=False)
    drive(native.start(one), ScriptFailed("BUSYGROUP Consumer Group name already exists"))
    assert one.grouped
    with pytest.raises(QueueError, match="WRONG"):
        drive(native.read(engine(known=False)), ScriptFailed("WRONG"))


def test_a_full_server_does_not_prevent_reading() -> None:
    one = engine(known=False)
    assert drive(native.read(one), QueueFull("OOM"), entries(b"{}"))[0]
    assert not one.grouped


@pytest.mark.parametrize(
    ("operation", "replies"),
    [
        (lambda: native.read(engine()), ()),
        (lambda: native.enqueue(engine(), {}), ()),
        (lambda: native.acknowledge(engine(), MESSAGE), ()),
        (lambda: native.claim_stale(engine()), ()),
        (lambda: native.claim_stale(engine()), ([[b"1-0", b"other", 99, 1]],)),
        (lambda: native.backlog_stats(engine()), ()),
        (lambda: native.read(engine(known=False)), ()),
    ],
)
def test_every_failure_is_a_queue_error_with_its_cause_and_nothing_is_sent_after_it(
    operation: Any, replies: Any
) -> None:
    cause = QueueUnavailable("Redis did not answer: gone")
    with pytest.raises(QueueError, match="gone") as raised:
        drive(operation(), *replies, cause)
    assert raised.value.__cause__ is cause


def test_an_interruption_is_no_queue_error() -> None:
    with pytest.raises(KeyboardInterrupt):
        drive(native.read(engine()), KeyboardInterrupt())


@pytest.mark.parametrize("number", [0, -1, True, 1.5, "5"])
def test_times_and_counts_are_whole_numbers_above_zero(number: Any) -> None:
    for operation in (
        native.read(engine(), number), native.read(engine(), 1, number),
        native.claim_stale(engine(), number), native.claim_stale(engine(), 1, number),
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match="must be"):
            drive(operation)


def test_a_malformed_entry_is_raised_by_the_next_read_after_its_good_neighbours() -> None:
    one = engine(max_read_count=9)
    messages, _ = drive(native.read(one), entries(b"{", b"{}", b"3"))
    assert [message.id for message in messages] == ["2-0"]
    for entry_id in ("1-0", "3-0"):
        with pytest.raises(QueueError, match=f"entry {entry_id}"):
            drive(native.read(one))
    assert drive(native.read(one), None)[0] == []


def test_claiming_stale_messages_is_one_query_and_one_claim_of_its_result() -> None:
    found = [[b"1-0", b"other", 99, 1], [b"2-0", b"me", 99, 1]]
    _, wants = drive(native.claim_stale(engine()), found, [[b"1-0", [b"data", b"{}"]], None])
    assert wants == [
        Listen((b"XPENDING", "orders", "billing", "IDLE", 60_000, "-", "+", 10), 0),
        Listen(("XCLAIM", "orders", "billing", "me", 60_000, "1-0", "2-0"), 0),
    ]


def test_messages_that_the_consumer_holds_can_be_excluded() -> None:
    found = [[b"1-0", b"me", 99, 1], [b"2-0", b"other", 99, 1], [b"3-0", b"other", 99, 1]]
    _, wants = drive(native.claim_stale(engine(claim_skip_own_messages=True), count=1), found, [])
    assert wants[1].args[-2:] == (60_000, "2-0")
    assert drive(native.claim_stale(engine(claim_skip_own_messages=True)), found[:1])[0] == []


def test_a_config_is_given_once() -> None:
    config = QueueConfig("orders", "billing", "me")
    with pytest.raises(ConfigurationError, match="config was given twice"):
        engine_of(config, config, None)
    with pytest.raises(ConfigurationError, match="config must be a QueueConfig, not dict"):
        engine_of("q", {}, None)  # type: ignore[arg-type]
