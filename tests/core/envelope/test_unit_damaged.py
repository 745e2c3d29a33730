from __future__ import annotations

import pytest

from rmq_core import MalformedMessage
from rmq_core.envelope.codec import message_of, split
from rmq_core.messages import header_items


@pytest.mark.parametrize("damaged", [b"", b"x", b"0 1 0 id s", b"a b c d e f", b"0 1 x id s0 p", b"0 1 0 id sx p"])
def test_an_entry_without_an_envelope_is_reported(damaged: bytes) -> None:
    with pytest.raises(MalformedMessage):
        split(damaged)
    with pytest.raises(MalformedMessage):
        message_of(damaged)


@pytest.mark.parametrize("damaged", [b"{", b"[1]", b"\xff"])
def test_damaged_headers_raise_an_error(damaged: bytes) -> None:
    with pytest.raises(MalformedMessage):
        header_items(damaged)
