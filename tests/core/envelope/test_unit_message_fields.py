"""A field of a message is defined once, in the codec; everything that shows messages shows it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import rmq_console
import rmq_core
from rmq_cli.consume import environment
from rmq_core import Message
from rmq_core.envelope import codec
from rmq_core.envelope.codec import Columns, HeaderFields, body, message_of
from rmq_core.envelope.payloads import encode_headers
from rmq_core.messages import MESSAGE_FIELDS, MessageField

NAMES = [field.name for field in MESSAGE_FIELDS]
SHOWN_APART = {"raw", "kind", "payload", "headers", "history"}
STORED = {"enqueued_ms"}  # as `enqueued_at`
OF_THE_LEASE = {"index", "lease_id", "ref"}
PAGE = Path(rmq_console.__file__).parent / "static" / "message.js"
ROOT = Path(__file__).parents[3]
ENTRY = re.compile(r"`(tenant = MessageField\.of_header\(.*?\))`")


def test_one_line_of_the_codec_shows_a_field_in_each_place_and_publishes_it_from_spark(tmp_path: Path) -> None:
    (line,) = ENTRY.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    core = shutil.copytree(Path(rmq_core.__file__).parent, tmp_path / "rmq_core")  # with the bytecode of what stays
    changed = core / "envelope" / "codec.py"
    before, name, after = changed.read_text("utf-8").partition("class HeaderFields:\n")
    changed.write_text(before + name + after.replace("__slots__ = ()\n", f"__slots__ = ()\n    {line}\n", 1), "utf-8")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tmp_path, ROOT)))}
    command = [sys.executable, "-P", "-m", "tests.core.toy_field"]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    toy = json.loads(ran.stdout)
    assert {place: about.get("tenant") for place, about in toy["shown"].items()} == dict.fromkeys(toy["shown"], "acme")
    assert toy["published"] == [
        {"rmq-tenant": "acme", "k": "v", "by": "me"}, {"k": "v", "by": "me"}, {"rmq-tenant": "acme", "by": "me"}, None,
    ]  # fmt: skip


def test_no_text_of_a_header_keeps_a_command_from_being_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MESSAGE_FIELDS", (*MESSAGE_FIELDS, MessageField.of_header("tenant", "rmq-tenant")))
    headers = encode_headers({"rmq-tenant": "a\0b" + "x" * 200_000})
    about = environment("q", message_of(b"0 0 0 " + body("id-1", "s", b"text", headers)))
    shown = subprocess.run(["/usr/bin/env"], env=about, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert {"RMQ_QUEUE=q", "RMQ_MESSAGE_ID=id-1", "RMQ_DELIVERIES=0", "RMQ_ENQUEUED_AT="} <= {*shown.splitlines()}
    assert "RMQ_TENANT=abxxx" in shown


def test_every_field_of_a_message_is_plain_or_has_its_own_handling() -> None:
    attributes = {**vars(Message), **vars(HeaderFields)}
    properties = {name for name, value in attributes.items() if isinstance(value, property | MessageField)}
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
    columns = Columns([], [], stored, [], [], [])
    assert [value.decode() for value in tenant.values(columns)] == expected


def test_the_page_reads_every_plain_field() -> None:
    script = PAGE.read_text("utf-8")
    shown = [field.name for field in MESSAGE_FIELDS if not field.header]  # the page lists all headers
    assert [name for name in shown if not re.search(rf"\bmessage\.{name}\b", script)] == []
