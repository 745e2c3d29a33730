from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rmq_core.cli import records
from rmq_core.envelope import codec
from rmq_core.envelope.codec import MESSAGE_FIELDS, Message, Payload, message_of
from rmq_core.envelope.payloads import encode_headers, encode_payload
from rmq_core.reports import LeaseInfo, QueueStats


def message(payload: Payload, history: str = "", enqueued_ms: int = 1_700_000_000_000) -> Message:
    body = codec.body("m1", *encode_payload(payload), encode_headers({"h": "1"}))
    return message_of(b"2 %d %d %b%b" % (enqueued_ms, len(history), history.encode(), body))


@pytest.mark.parametrize("payload", ["text", {"a": [1]}, [None, "é"]])
def test_a_record_contains_a_payload_as_it_was_published(payload: Payload) -> None:
    assert records.message_record("q", message(payload))["payload"] == payload


def test_a_record_contains_bytes_as_base64() -> None:
    record = records.message_record("q", message(b"\xff\x00"))
    assert record["payload_base64"] == "/wA="
    assert "payload" not in record


def test_the_names_of_a_message_record_are_those_of_the_documentation() -> None:
    record = records.message_record("q", message("x", "nack\t1700000000000\tme\tboom\n"))
    assert list(record) == ["queue", *[field.name for field in MESSAGE_FIELDS], "payload", "headers", "history"]
    assert record["history"] == [{"kind": "nack", "at": "2023-11-14T22:13:20+00:00", "owner": "me", "reason": "boom"}]
    assert record["enqueued_at"] == "2023-11-14T22:13:20+00:00"


def test_a_message_without_a_publish_time_has_no_age() -> None:
    bare = message("x", enqueued_ms=0)
    assert records.message_record("q", bare)["enqueued_at"] is None
    assert records.message_row(bare)[1] is None


def test_a_dead_letter_shows_its_last_failure() -> None:
    told = "nack\t1\ta\tfirst\nexpired\t2\tb\t\n"
    assert records.message_row(message("x", told))[3] == "expired"
    assert records.message_row(message("x"))[3] is None


def test_a_lease_record_contains_no_token() -> None:
    now = datetime.now(UTC)
    info = LeaseInfo("l", "me", "held", 3, 1, 0, now - timedelta(minutes=1), now + timedelta(seconds=90.5), 7)
    assert set(records.lease_record("q", info)) == {
        "queue", "id", "owner", "state", "count", "settled", "takeovers", "claimed_at", "deadline", "isolation",
        "first",
    }  # fmt: skip
    assert records.lease_row(info)[-4:] == ("1 min", "1 min 30 s", None, None)


@pytest.mark.parametrize(("seconds", "ends"), [(None, "never"), (-1, "expired")])
def test_a_lease_without_a_deadline_ends_never_and_one_past_its_deadline_is_expired(
    seconds: int | None, ends: str
) -> None:
    now = datetime.now(UTC)
    deadline = None if seconds is None else now + timedelta(seconds=seconds)
    assert records.lease_row(LeaseInfo("l", "me", "held", 1, 0, 0, now, deadline, 7))[7] == ends


def test_the_counts_of_a_queue_are_under_their_headings() -> None:
    stats = QueueStats(ready=1, delayed=2, leased=3, leases=4, dead=5, oldest_age=6.0, paused=True)
    row = dict(zip(records.STATS, records.stats_row("q", "leased", stats), strict=True))
    assert row == {
        "queue": "q", "discipline": "leased", "ready": 1, "oldest": "6 s", "delayed": 2, "leased": 3, "leases": 4,
        "dead": 5, "paused": True, "isolated": 0,
    }  # fmt: skip
