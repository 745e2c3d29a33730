"""Messages as columns of Arrow: what `message_of` says of each one, and its errors."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from rmq_core import ConfigurationError, MalformedMessage, Message
from rmq_core.envelope import arrow, codec
from rmq_core.envelope.arrow import SCHEMA, JsonTables, _split, batch_of, messages_of, split_json, table_of
from rmq_core.envelope.codec import MESSAGE_FIELDS, body, header_items, header_texts, message_of
from rmq_core.errors import UnknownPayloadKind

HISTORY = b"nack\t1700000000000\tme\twhy not\x1f2 7 1 0\n"
HEADERS = [
    b"", b"", b'{"a":"\xc3\xbc","b":"2"}', b'{"c d":[1,null]}', b'{"rmq-group":"acme","rmq-priority":"3"}',
    b'{"rmq-group":"Zo\xc3\xab","rmq-publication":"may","rmq-expires":"1700000000000"}',
]  # fmt: skip


def random_envelopes(seed: int, count: int = 300) -> list[bytes]:
    chance = random.Random(seed)
    found = []
    for number in range(count):
        history = HISTORY * chance.choice([0, 0, 0, 1, 3])
        payload = chance.choice([b"", b" ", b"0 1 2 3 4 5 6", chance.randbytes(chance.randrange(300)), b"x" * 100_000])
        own = body(f"id-{number}", chance.choice("sjb"), payload, chance.choice(HEADERS))
        found.append(b"%d %d %d %b%b" % (chance.choice([0, 3, 12]), 10**number % 10**13, len(history), history, own))
    return found


def row_of(message: Message) -> dict[str, Any]:
    headers = [(name.decode(), value.decode()) for name, value in header_texts(message.headers.items())]
    return {
        "message_id": message.id, "group": message.group, "priority": message.priority,
        "publication": message.publication, "expires": message.expires, "payload": message.raw,
        "headers": headers, "deliveries": message.deliveries,
        "enqueued_at": message.enqueued_at, "index": message.index, "lease": message.lease_id, "queue": "q",
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_columns_contain_the_same_values_as_single_messages(seed: int) -> None:
    envelopes = random_envelopes(seed)
    indexes = range(7, 307) if seed % 2 else list(range(0, 600, 2))
    messages = [message_of(each, index, "job", 2) for each, index in zip(envelopes, indexes, strict=True)]
    assert _split(envelopes, indexes, 2) is not None
    batch = batch_of(envelopes, indexes, 2, "job", "q")
    assert batch.to_pylist() == list(map(row_of, messages))
    batch.validate(full=True)
    assert messages_of(messages, "q").equals(batch)


@pytest.mark.parametrize(
    "unusual",
    [
        b"0 1 0 " + body("i" * 500, "s", b"a long id"),
        b"0 1 0  s0 no id",
        b"+1 01 0 " + body("id", "s", b"signs"),
        b"-1 1 00 " + body("id", "s", b"signs"),
    ],
)
def test_an_unusual_envelope_among_others_is_split_as_alone(unusual: bytes) -> None:
    envelopes = [*random_envelopes(9, 20), unusual]
    found = batch_of(envelopes, range(21), 1, "job", "q").to_pylist()
    assert found == [row_of(message_of(each, index, "job", 1)) for index, each in enumerate(envelopes)]


@pytest.mark.parametrize(
    ("damaged", "error"),
    [
        (b"", MalformedMessage), (b"x", MalformedMessage), (b"0 1 0 id s", MalformedMessage),
        (b"0x1 1 0 id s0 p", MalformedMessage), (b"0 1 x id s0 p", MalformedMessage),
        (b"0 1 0 id sx p", MalformedMessage), (b"0 1 0 id s p", MalformedMessage),
        (b"0 1 0 \xff s0 p", MalformedMessage), (b"0 1 0 id s2 {x", MalformedMessage),
        (b"0 9999999999999999999 0 id s0 p", MalformedMessage), (b"99999999999 1 0 id s0 p", MalformedMessage),
        (b"0 1 0 id z0 p", UnknownPayloadKind),
    ],
)  # fmt: skip
def test_a_damaged_envelope_among_others_raises_an_error(damaged: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        batch_of([*random_envelopes(3, 5), damaged], range(6), 1, "job", "q")


def test_headers_are_decoded_once_for_all_messages_that_have_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def noted(headers: bytes) -> Any:
        decoded.append(headers)
        return header_items(headers)

    for module in (arrow, codec):
        monkeypatch.setattr(module, "header_items", noted)
    batch = batch_of(random_envelopes(4), range(300), 1, "job", "q")
    assert len(set(batch["group"].to_pylist())) == 3
    columns = ["headers", *(field.name for field in MESSAGE_FIELDS if field.header)]
    assert len(decoded) <= len(columns) * len(set(HEADERS))


def test_no_messages_are_a_table_without_rows() -> None:
    assert table_of([]).schema == SCHEMA
    assert batch_of([], [], 1, "job", "q").num_rows == messages_of([], "q").num_rows == 0


def test_the_core_does_not_load_arrow() -> None:
    code = "import sys, rmq_core.asyncio, rmq_core.leased.queue; print({'numpy', 'pyarrow'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "set()\n"


def test_without_pyarrow_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from rmq_core.envelope.codec import arrow_columns

    monkeypatch.delitem(sys.modules, "rmq_core.envelope.arrow")
    monkeypatch.delattr("rmq_core.envelope.arrow")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigurationError, match=r"rmq\[arrow\]"):
        arrow_columns()


JSON = pa.schema([pa.field("n", pa.int64(), nullable=False), ("text", pa.string()), ("of", pa.list_(pa.float64()))])
NOT_JSON, NOT_UTF8 = "payload is not JSON of the declared schema", "payload is not UTF-8"
NO_N = "payload has no 'n', which is NOT NULL"
CASES: list[tuple[bytes, Any]] = [
    (b'{"n":1}', {"n": 1, "text": None, "of": None}),
    (b' {"n":2,\n"text":"a {b}\\n","of":[1,2.5],"more":{"x":[]}}\r\n', {"n": 2, "text": "a {b}\n", "of": [1, 2.5]}),
    ('{"n":3,"text":"grüße 🎈"}'.encode(), {"n": 3, "text": "grüße 🎈", "of": None}),
    (b'{"text":"a"}', NO_N), (b'{"n":null}', NO_N), (b'{"n":"1"}', NOT_JSON), (b'{"n":1.5}', NOT_JSON),
    (b'{"n":99999999999999999999}', NOT_JSON), (b'{"n":1,"text":5}', NOT_JSON), (b"[1]", NOT_JSON), (b"", NOT_JSON),
    (b"  ", NOT_JSON), (b"5", NOT_JSON), (b'{"n":1}{"n":2}', NOT_JSON), (b'{"n":1}\n{"n":2}', NOT_JSON),
    (b"{", NOT_JSON), (b'{"n":1,"of":[{}', NOT_JSON), (b',"text":"b"}', NOT_JSON), (b'{"n":1,"text":"', NOT_JSON),
    (b'{"n":1,"text":"}', NOT_JSON),
    (b'{"n":1,"text":"\xff"}', NOT_UTF8), (b'{"n":1' + b',"x":[' * 9 + b"}", NOT_JSON),
    (b'{"n":1,"x":' + b'{"x":' * 5_000 + b"1" + b"}" * 5_001, {"n": 1, "text": None, "of": None}),
]  # fmt: skip


def split(payloads: list[bytes]) -> JsonTables:
    envelopes = [b"0 1 0 " + body(f"m{at}", "s", payload) for at, payload in enumerate(payloads)]
    return split_json(table_of([batch_of(envelopes, range(len(payloads)), 1, "job", "q")]), JSON)


@pytest.mark.parametrize("seed", range(8))
def test_json_payloads_are_separated_from_those_that_do_not_fit(seed: int) -> None:
    chance = random.Random(seed)
    cases = chance.choices(CASES, k=60) if seed else CASES
    good, corrupt = split([payload for payload, _ in cases])
    found = dict(zip(good["index"].to_pylist(), good["value"].to_pylist(), strict=True))
    found |= dict(zip(corrupt["index"].to_pylist(), corrupt["reason"].to_pylist(), strict=True))
    assert [found[at] for at in range(len(cases))] == [expected for _, expected in cases]
    assert good["index"].to_pylist() == sorted(good["index"].to_pylist())
    assert good.schema.names == [*SCHEMA.names, "value"]
    assert good.schema.field("value").type == pa.struct(list(JSON))


def test_json_of_more_than_one_chunk_and_of_none_is_split() -> None:
    good, corrupt = split([b'{"n":%d}' % at if at % 700 else b"{" for at in range(2_500)])
    assert [value["n"] for value in good["value"].to_pylist()] == [at for at in range(2_500) if at % 700]
    assert corrupt["index"].to_pylist() == [0, 700, 1_400, 2_100]
    assert [table.num_rows for table in (*split([]), *split([b""]))] == [0, 0, 0, 1]


@pytest.mark.parametrize("schema", [None, "n LONG", pa.schema([]), pa.schema([("n", pa.large_list_view(pa.int8()))])])
def test_a_schema_that_cannot_be_read_is_refused(schema: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^schema "):
        split_json(table_of([]), schema)
