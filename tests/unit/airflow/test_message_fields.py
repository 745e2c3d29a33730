from __future__ import annotations

from rmq_airflow.triggers.shared_stream import _read_of
from rmq_core.envelope.codec import message_of
from rmq_core.messages import MESSAGE_FIELDS

LEFT_OUT = {"enqueued_at"}


def test_an_asset_event_has_the_plain_fields_of_its_message() -> None:
    event = _read_of("q", message_of(b"2 1500 0 id-1 s0 text")).event
    names = {"message_id" if field.name == "id" else field.name for field in MESSAGE_FIELDS}
    assert names - LEFT_OUT <= event.keys()
