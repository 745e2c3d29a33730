from __future__ import annotations

from typing import Any

import pytest

from rmq_core import PayloadError
from rmq_core.envelope.codec import message_of
from rmq_core.errors import PayloadTooLarge
from rmq_core.rotation.state import RotationConfig, envelope, id_bytes, id_text, new_entry, stamped_entry


@pytest.mark.parametrize(
    "plain", [b"123", b"a|b", b"a|", b"|", b"|0", b"|1417696237", b"a|5", b"a|14176962370", b"a|0 "]
)
def test_an_id_that_does_not_look_timestamped_is_its_own_entry(plain: bytes) -> None:
    assert new_entry(plain) == plain


@pytest.mark.parametrize("stamped", [b"a|0", b"a|1417696237", b"a|b|0", b"\n|0", b"a\n|0"])
def test_an_id_that_looks_timestamped_is_stored_with_a_zero_timestamp(stamped: bytes) -> None:
    assert new_entry(stamped) == stamped + b"|0"


def test_a_popped_id_is_followed_by_its_stamp() -> None:
    assert stamped_entry(b"a|0", "1417696237") == b"a|0|1417696237"


@pytest.mark.parametrize("value", ["a", "żółw", b"\xff", "\udcff", " "])
def test_an_id_is_text_or_bytes(value: Any) -> None:
    data = id_bytes(value, RotationConfig(max_id_bytes=100))
    assert id_bytes(id_text(data), RotationConfig(max_id_bytes=100)) == data


@pytest.mark.parametrize("value", ["", b"", None, 5, ["a"], "\ud800"])
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(PayloadError, match="id"):
        id_bytes(value, RotationConfig(max_id_bytes=100))


def test_the_limit_counts_bytes() -> None:
    assert id_bytes("é", RotationConfig(max_id_bytes=2))
    with pytest.raises(PayloadTooLarge):
        id_bytes("é", RotationConfig(max_id_bytes=1))


@pytest.mark.parametrize("data", [b"a", b"a b%", "żółw".encode(), b"a|5", b"a\nb"])
@pytest.mark.parametrize("late", [False, True])
def test_the_message_of_an_id_has_it_as_payload(data: bytes, *, late: bool) -> None:
    message = message_of(envelope(data, late=late), delivered=1)
    assert (message.payload, message.deliveries) == (data.decode(), 2 if late else 1)
    assert " " not in message.id


def test_an_id_that_is_no_text_is_a_payload_of_bytes() -> None:
    message = message_of(envelope(b"\xff |", late=False))
    assert (message.payload, message.id) == (b"\xff |", "\\xff%20|")
