from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rmq_cli import records
from rmq_core.envelope import codec
from rmq_core.envelope.codec import Message, Payload, message_of
from rmq_core.envelope.payloads import encode_headers, encode_payload
from rmq_core.reports import Client, LeaseInfo, programs


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


def test_a_program_that_runs_again_and_again_is_one_line_and_each_that_is_there_is_another() -> None:
    now = datetime.now(UTC)
    ago = [now - timedelta(seconds=seconds) for seconds in (1, 60, 120, 600, 900)]
    cron = [Client("publisher", "h", pid, "1", "", at, "cron") for pid, at in enumerate(ago, 7)]
    workers = [Client("consumer", "h", pid, "1", "", at) for pid, at in enumerate(ago, 7)]
    listed = [[(some[0], 1), (some[1], 1), (some[2], 3)] for some in (workers, cron)]
    assert programs([*workers, *cron]) == [*listed[0], *listed[1]]
    assert records.client_row(*listed[1][-1])[3] == "9 and 2 more"


def test_the_number_of_a_process_can_be_copied() -> None:
    client = Client("consumer", "host-1", 32_270, "0.2.0", "", datetime.now(UTC))
    assert records.client_row(client)[3] == "32270"


@pytest.mark.parametrize(
    ("role", "since", "told"),
    [
        ("consumer", 3, "3 s ago"),
        ("consumer", 130, "2 min 10 s ago, gone or hangs"),
        ("publisher", 130, "2 min 10 s ago, idle or ended"),
    ],
)  # fmt: skip
def test_a_client_was_there_so_long_ago(role: str, since: int, told: str) -> None:
    client = Client(role, "host-1", 7, "0.2.0", "", datetime.now(UTC) - timedelta(seconds=since), "night-worker")
    row = dict(zip(records.CLIENTS, records.client_row(client), strict=True))
    assert (row["name"], row["last there"]) == ("night-worker", told)
