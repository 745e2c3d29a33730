from __future__ import annotations

import pytest

from rmq_core import MalformedMessage
from rmq_core.envelope.codec import body, columns_of, message_of, split
from rmq_core.messages import header_items

HEADERS = b'{"a":"\xc3\xbc","b":"2"}'
HISTORY = b"nack\t1700000000000\tme\twhy not\n"
ENVELOPES = [
    b"0 1700000000001 0 " + body("id-1", "s", b"plain"),
    b"0 1700000000002 0 " + body("id-2", "j", b"with headers, and a space", HEADERS),
    b"3 1700000000003 %d " % len(HISTORY) + HISTORY + body("id-3", "b", b"\xff \x00"),
    b"1 1700000000004 %d " % len(HISTORY) + HISTORY + body("id-4", "s", b"", HEADERS),
]


def test_columns_contain_the_same_values_as_single_messages() -> None:
    found = columns_of(ENVELOPES, [4, 5, 6, 7], 2)
    messages = [message_of(envelope, delivered=2) for envelope in ENVELOPES]
    assert [name.decode() for name in found.ids] == [message.id for message in messages]
    assert found.payloads == [message.raw for message in messages]
    assert [dict(header_items(headers)) for headers in found.headers] == [message.headers for message in messages]
    assert found.deliveries == [message.deliveries for message in messages]
    assert found.enqueued_ms == [message.enqueued_ms for message in messages]
    assert found.indexes == [4, 5, 6, 7]


@pytest.mark.parametrize("damaged", [b"", b"x", b"0 1 0 id s", b"a b c d e f", b"0 1 x id s0 p", b"0 1 0 id sx p"])
def test_columns_and_messages_report_an_entry_without_an_envelope(damaged: bytes) -> None:
    with pytest.raises(MalformedMessage):
        split(damaged)
    with pytest.raises(MalformedMessage):
        columns_of([damaged], [0], 1)


@pytest.mark.parametrize("damaged", [b"{", b"[1]", b"\xff"])
def test_damaged_headers_raise_an_error(damaged: bytes) -> None:
    with pytest.raises(MalformedMessage):
        header_items(damaged)
