"""A field of a message is defined once, in the codec; everything that shows messages shows it."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from pyspark.sql import types

import rmq_console
from rmq_cli.records import message_record
from rmq_console.shown import message_shown
from rmq_core import Message
from rmq_core.envelope.codec import Columns, body, columns_of, message_of
from rmq_core.envelope.payloads import encode_headers
from rmq_core.messages import MESSAGE_FIELDS, MessageField
from rmq_spark.schema import BROWSE_SCHEMA, MESSAGE_SCHEMA

NAMES = [field.name for field in MESSAGE_FIELDS]
SHOWN_APART = {"raw", "kind", "payload", "headers", "history"}
STORED = {"enqueued_ms"}  # as `enqueued_at`
OF_THE_LEASE = {"index", "lease_id", "ref"}
PAGE = Path(rmq_console.__file__).parent / "static" / "message.js"


def test_every_field_of_a_message_is_plain_or_has_its_own_handling() -> None:
    properties = {name for name, value in vars(Message).items() if isinstance(value, property)}
    named = {field.name for field in fields(Message)} | properties
    assert named - SHOWN_APART - STORED - OF_THE_LEASE == set(NAMES)


def test_every_plain_field_has_a_column() -> None:
    own = {field.column for field in MESSAGE_FIELDS if not field.header}
    assert own == set(Columns._fields) - {"payloads", "headers", "indexes"}


def test_a_field_of_a_header_is_its_text_in_messages_and_in_columns() -> None:
    tenant = MessageField.of_header("tenant", "rmq-tenant")
    stored = [b"", *map(encode_headers, ({"x": "rmq-tenant"}, {"rmq-tenant": "acme", "x": "1"}, {"rmq-tenant": "Zoë"}))]
    stored += [b'{"rmq-tenant":7}', b'{"rmq-tenant":"\\ud800"}']  # other programs may store any JSON
    envelopes = [b"0 1500 0 " + body("id-1", "s", b"text", headers) for headers in stored]
    expected = ["", "", "acme", "Zoë", "", "?"]
    assert [tenant.of(message_of(envelope)) for envelope in envelopes] == expected
    columns = columns_of(envelopes, range(len(envelopes)), 1)
    assert [value.decode() for value in tenant.values(columns)] == expected


def test_the_command_line_and_the_page_show_every_plain_field() -> None:
    message = message_of(b"2 1500 0 id-1 s0 text")
    assert set(NAMES) <= message_record("q", message).keys()
    assert set(NAMES) <= message_shown(message, lambda _: None).keys()


def test_the_page_reads_every_plain_field() -> None:
    script = PAGE.read_text("utf-8")
    shown = [field.name for field in MESSAGE_FIELDS if not field.header]  # the page lists all headers
    assert [name for name in shown if not re.search(rf"\bmessage\.{name}\b", script)] == []


def test_spark_reads_every_plain_field() -> None:
    kinds = {str: types.StringType(), int: types.IntegerType()}
    for schema in (MESSAGE_SCHEMA, BROWSE_SCHEMA):
        for field in MESSAGE_FIELDS:
            column = schema["message_id" if field.name == "id" else field.name]
            assert column.dataType == kinds.get(field.type, types.TimestampType())
