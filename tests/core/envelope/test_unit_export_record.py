"""Stored messages as JSON objects: golden lines, and bytes that arrive as they were."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_core.envelope import codec
from rmq_core.envelope.export_record import StoredMessage, group_of, message_in, record_of, unmarked
from rmq_core.envelope.payloads import PayloadLimits, encode_headers, encode_payload
from rmq_core.errors import PayloadError, PayloadTooDeep, PayloadTooLarge
from rmq_core.jobs.job import encode_options

ANY = PayloadLimits(max_payload_depth=500)
HISTORY = b"nack\t1700\tme\tboom\nexpired\t1800\tyou\t\x1f2 5 3 1\n"
GOLDEN = [
    (b'0 1000 0 m j0 {"n":1}', {"id": "m", "kind": "j", "payload": {"n": 1}, "enqueued_ms": 1000}),
    (b"0 1000 0 m s0 text", {"id": "m", "kind": "s", "payload": "text", "enqueued_ms": 1000}),
    (b"0 1000 0 m b0 \x00\xff", {"id": "m", "kind": "b", "payload_base64": "AP8=", "enqueued_ms": 1000}),
    (b"0 0 0 m s0 ", {"id": "m", "kind": "s", "payload": ""}),
    (
        b'2 1000 0 m s9 {"a":"b"}text',
        {"id": "m", "kind": "s", "payload": "text", "headers": {"a": "b"}, "enqueued_ms": 1000, "deliveries": 2},
    ),
    (
        b"2 1000 %d " % len(HISTORY) + HISTORY + b"m s0 text",
        {
            "id": "m",
            "kind": "s",
            "payload": "text",
            "enqueued_ms": 1000,
            "deliveries": 2,
            "history": [
                {"kind": "nack", "at_ms": 1700, "owner": "me", "reason": "boom"},
                {"kind": "expired", "at_ms": 1800, "owner": "you", "reason": "", "isolation": [2, 5, 3, 1]},
            ],
        },
    ),
]


def arrived(envelope: bytes, state: str = "ready") -> bytes:
    """The envelope after its way through a line."""
    line = json.dumps(record_of(StoredMessage(state, envelope)))
    return message_in(json.loads(line), ANY).envelope


@pytest.mark.parametrize(("envelope", "record"), GOLDEN)
def test_an_envelope_and_its_json_object_belong_together_for_ever(envelope: bytes, record: dict[str, Any]) -> None:
    assert record_of(StoredMessage("ready", envelope)) == {"state": "ready", **record}
    assert message_in({"state": "ready", **record}, ANY) == StoredMessage("ready", envelope)


@pytest.mark.parametrize(
    "envelope",
    [
        b'0 1 0 m j0 {"b": 1, "a": 2}',
        b'0 1 0 m j0 {"a":1,"a":2}',
        b"0 1 0 m j0 {}extra",
        b'0 1 0 m j0 ["\\ud800"]',
        b"0 1 0 m j0 [NaN]",
        b"0 1 0 m s0 \xff",
        b"0 1 0 m x0 of a later version",
        b'0 1 0 m s10 {"a": "b"}x',
        b"00 1 0 m s0 x",
        b"0 1 5 lines" + b"m s0 x",
        b"0 1 0 m j0 " + b"[" * 5000 + b"]" * 5000,
    ],
)
def test_bytes_that_another_program_wrote_arrive_unchanged(envelope: bytes) -> None:
    assert arrived(envelope) == envelope


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
PAYLOADS = st.binary() | st.text() | st.lists(JSON, max_size=3) | st.dictionaries(st.text(), JSON, max_size=3)


@given(PAYLOADS, st.dictionaries(st.text(), st.text(), max_size=3), st.integers(0, 10**9), st.integers(0, 10**13))
def test_every_message_that_can_be_published_arrives_byte_for_byte(
    payload: Any, headers: dict[str, str], deliveries: int, enqueued_ms: int
) -> None:
    kind, data = encode_payload(payload)
    body = codec.body("an-id", kind, data, encode_headers(headers))
    envelope = codec.stamp(enqueued_ms, deliveries) + body
    assert "envelope_base64" not in record_of(StoredMessage("ready", envelope))
    assert arrived(envelope) == envelope


@pytest.mark.parametrize("data", [b"5", b"null", b"2.5", b"true"])
def test_the_scalar_data_and_options_of_a_job_arrive(data: bytes) -> None:
    envelope = codec.stamp(1000) + codec.body("m", "j", data, encode_options("send", 3, None))
    assert record_of(StoredMessage("ready", envelope))["headers"] == {"rmq-attempts": "3", "rmq-name": "send"}
    assert arrived(envelope) == envelope


def test_due_time_lease_and_owner_are_written() -> None:
    assert record_of(StoredMessage("delayed", b"0 1 0 m s0 ", 5000))["due_ms"] == 5000
    found = record_of(StoredMessage("leased", b"0 1 0 m s0 ", None, "load", "me"))
    assert (found["lease"], found["owner"]) == ("load", "me")


GOOD = {"state": "ready", "id": "m", "kind": "s", "payload": "text", "enqueued_ms": 1}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"state": "gone"}, "state"),
        ({"state": None}, "state"),
        ({"state": "delayed"}, "due_ms"),
        ({"state": "delayed", "due_ms": -1}, "due_ms"),
        ({"state": "delayed", "due_ms": 10**15}, "due_ms"),
        ({"id": ""}, "id"),
        ({"id": "a b"}, "id"),
        ({"id": "a\nb"}, "id"),
        ({"id": 5}, "id"),
        ({"id": "a" * 5000}, "id"),
        ({"kind": "jj"}, "kind"),
        ({"kind": "5"}, "kind"),
        ({"kind": None}, "kind"),
        ({"kind": "j"}, "payload"),
        ({"kind": "b"}, "payload"),
        ({"payload": {}}, "payload"),
        ({"payload": "\ud800"}, "payload"),
        ({"kind": "j", "payload": [float("nan")]}, "payload"),
        ({"kind": "j", "payload": {"a": "\ud800"}}, "payload"),
        ({"payload_base64": "no base64!"}, "payload_base64"),
        ({"payload_base64": 5}, "payload_base64"),
        ({"envelope_base64": base64.b64encode(b"no envelope").decode()}, "envelope_base64"),
        ({"headers": {"a": 1}}, "headers"),
        ({"headers": "a"}, "headers"),
        ({"enqueued_ms": "now"}, "enqueued_ms"),
        ({"enqueued_ms": True}, "enqueued_ms"),
        ({"deliveries": -1}, "deliveries"),
        ({"deliveries": 1.5}, "deliveries"),
        ({"history": "nack"}, "history"),
        ({"history": [{"kind": "nack"}]}, "history"),
        ({"history": ["nack"]}, "history"),
        ({"history": [{"kind": "nack", "at_ms": 1, "owner": "a\tb", "reason": ""}]}, "history"),
        ({"history": [{"kind": "nack", "at_ms": 1, "owner": "", "reason": "two\nlines"}]}, "history"),
        ({"history": [{"kind": "nack", "at_ms": 1, "owner": "", "reason": "", "isolation": [1]}]}, "history"),
        ({"history": [{"kind": "nack", "at_ms": 1, "owner": "", "reason": "x" * 70_000}]}, "history"),
    ],
)
def test_an_invalid_field_is_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(PayloadError, match=f"^{named}"):
        message_in({**GOOD, **changes}, ANY)


def test_the_limits_of_the_target_hold() -> None:
    with pytest.raises(PayloadTooLarge, match="max_payload_bytes is 3"):
        message_in(GOOD, PayloadLimits(max_payload_bytes=3))
    with pytest.raises(PayloadTooLarge):
        message_in({**GOOD, "payload_base64": "AAAAAAAA"}, PayloadLimits(max_payload_bytes=3))
    envelope = base64.b64encode(b"0 1 0 m s0 text").decode()
    with pytest.raises(PayloadTooLarge):
        message_in({"state": "ready", "envelope_base64": envelope}, PayloadLimits(max_payload_bytes=3))
    deep = {**GOOD, "kind": "j", "payload": [[[[]]]]}
    with pytest.raises(PayloadTooDeep):
        message_in(deep, PayloadLimits(max_payload_depth=3))
    assert message_in(deep, PayloadLimits(max_payload_depth=4)).envelope.endswith(b"[[[[]]]]")
    wide = {**GOOD, "kind": "j", "payload": [[], [], [], [], []]}
    assert message_in(wide, PayloadLimits(max_payload_depth=3)).envelope.endswith(b"[[],[],[],[],[]]")


def test_isolation_is_read_from_the_newest_failure_and_can_be_taken_away() -> None:
    envelope = b"2 1000 %d " % len(HISTORY) + HISTORY + b"m s0 text"
    assert group_of(HISTORY) == 5
    assert group_of(b"nack\t1\t\t\n") == group_of(b"") == 0
    assert codec.split(unmarked(envelope)).history == b"nack\t1700\tme\tboom\nexpired\t1800\tyou\t\n"
    assert unmarked(b"0 1 0 m s0 ") == b"0 1 0 m s0 "
