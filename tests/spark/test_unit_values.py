"""No payload ends a query with `valueSchema`: each gets a value that Arrow can store, or a reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T

from rmq_spark.read.values import NOT_JSON, NOT_UTF8, with_value

INNER = T.StructType([T.StructField("at", T.StringType()), T.StructField("sizes", T.ArrayType(T.DoubleType()))])
ROW = T.StructType([T.StructField("n", T.LongType()), T.StructField("t", T.StringType())])
KINDS: dict[str, T.DataType] = {
    "flag": T.BooleanType(),
    "tiny": T.ByteType(),
    "small": T.ShortType(),
    "whole": T.IntegerType(),
    "large": T.LongType(),
    "single": T.FloatType(),
    "double": T.DoubleType(),
    "text": T.StringType(),
    "inner": INNER,
    "texts": T.ArrayType(T.StringType()),
    "rows": T.ArrayType(ROW),
}
DECLARED = T.StructType([T.StructField(name, kind) for name, kind in KINDS.items()])


def mostly(usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a value of the second strategy one time in ten: one misfit anywhere makes the whole payload corrupt."""
    return st.integers(0, 9).flatmap(lambda at: odd if at == 9 else usual)


BOUNDS = [f"{sign}{(1 << bits) - less}" for sign in ("", "-") for bits in (7, 8, 15, 31, 63) for less in (1, 0, -1)]
LARGE = [
    "1e999",
    "-1e999",
    "1e99999999999",
    "1e-999",
    "3.5e38",
    *(f"{sign}1{'0' * n}" for sign in ("", "-") for n in (38, 309)),
]
WHOLE = st.sampled_from(["0", "-0", *BOUNDS]) | st.integers(min_value=-(1 << 70), max_value=1 << 70).map(str)
FLOATS = st.sampled_from([*LARGE, "-0.0", "1e2", "1.0", "NaN", "-Infinity"]) | st.floats().map(json.dumps)
# `st.text` leaves out surrogates, whatever its alphabet has.
CHARACTERS = st.sampled_from("\ud83d\ude00\udfff\0\n\"\\/'\u2028\u00e9") | st.characters()
TEXTS = st.lists(CHARACTERS, max_size=4).map("".join) | st.sampled_from(
    ["", "NaN", "Infinity", "+Infinity", "-Infinity", "INF", "+INF", "-INF", "nan", "1", "true", "null"]
)
STRINGS = mostly(TEXTS.map(json.dumps), TEXTS.map(lambda text: json.dumps(text, ensure_ascii=False)))
BROKEN = st.sampled_from(
    [
        "01",
        "+1",
        ".5",
        "1.",
        "1e",
        "0x1",
        "+Infinity",
        "+INF",
        '"\\q"',
        '"\\u12"',
        "'a'",
        '"',
        '"\n"',
        "{",
        "]",
        "/**/1",
        "",
    ]
)
SIMPLE = mostly(st.one_of(WHOLE, FLOATS, STRINGS, st.sampled_from(["true", "false", "null"])), BROKEN)


def _object(pairs: Sequence[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{name}:{value}" for name, value in pairs) + "}"


def _array(items: Sequence[str]) -> str:
    return f"[{','.join(items)}]"


NAMES = st.sampled_from(["at", "sizes", "n", "t", *KINDS]).map(json.dumps) | STRINGS
ANY = st.recursive(
    SIMPLE,
    lambda each: st.lists(st.tuples(NAMES, each), max_size=3).map(_object) | st.lists(each, max_size=3).map(_array),
    max_leaves=4,
)


def _of(kind: T.DataType) -> st.SearchStrategy[str]:
    """Return values of a type, mostly."""
    if isinstance(kind, T.StructType):
        pairs = [st.tuples(st.just(json.dumps(each.name)), _of(each.dataType)) for each in kind.fields]
        usual = st.tuples(*pairs).map(_object)
    elif isinstance(kind, T.ArrayType):
        usual = st.lists(_of(kind.elementType), max_size=3).map(_array)
    elif isinstance(kind, T.BooleanType):
        usual = st.sampled_from(["true", "false", "null"])
    elif isinstance(kind, T.StringType):
        usual = STRINGS | ANY
    else:
        usual = WHOLE if isinstance(kind, T.IntegralType) else FLOATS | WHOLE | TEXTS.map(json.dumps)
    return mostly(usual, ANY)


FIELDS = st.sampled_from(list(KINDS)).flatmap(lambda name: st.tuples(st.just(json.dumps(name)), _of(KINDS[name])))
OBJECTS = st.lists(mostly(FIELDS, st.tuples(NAMES, ANY)), min_size=1, max_size=2).map(_object)
JSON = mostly(OBJECTS, ANY).map(lambda text: text.encode(errors="surrogatepass"))
PAYLOADS = mostly(JSON, st.binary(max_size=8) | st.builds(bytes.__add__, JSON, st.sampled_from([b" ", b"x", b"{}"])))
"""JSON of these fields, of any others, and bytes that are no JSON."""


def values(payloads: Sequence[bytes], declared: T.StructType = DECLARED) -> list[tuple[Any, str | None]]:
    """Return the value and the reason of each payload."""
    schema = T.StructType(
        [
            T.StructField("payload", T.BinaryType()),
            T.StructField("value", declared),
            T.StructField("reason", T.StringType()),
        ]
    )
    batch = with_value(pa.RecordBatch.from_arrays([pa.array(payloads, pa.binary())], names=["payload"]), schema)
    batch.validate(full=True)
    return [(row["value"], row["reason"]) for row in batch.to_pylist()]


@settings(max_examples=500)
@given(PAYLOADS)
def test_a_payload_fails_at_most_its_own_row(payload: bytes) -> None:
    found = values([b'{"whole":1}', payload, b'{"whole":2}'])
    assert [value["whole"] for value, _ in (found[0], found[-1])] == [1, 2]
    value, reason = found[1]
    assert (value is None, reason in {NOT_JSON, NOT_UTF8}) in {(True, True), (False, False)}


def test_extremes_of_depth_and_length_fail_at_most_their_row() -> None:
    deep = 100_000
    payloads = [
        b'{"text":%b}' % (b"[" * deep + b"]" * deep),
        b'{"other":%b}' % (b'{"a":' * deep),
        b'{"whole":%b}' % (b"1" * 5000),
        b'{"%b":1,"double":0.%b}' % (b"a" * deep, b"1" * 5000),
    ]
    *refused, (value, reason) = values(payloads)
    assert refused == [(None, NOT_JSON)] * 3
    assert (value["double"], reason) == (1 / 9, None)
