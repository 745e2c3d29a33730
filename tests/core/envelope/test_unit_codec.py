from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_core.envelope import codec
from rmq_core.envelope.payloads import PayloadLimits, decode_payload, digest, encode_headers, encode_payload
from rmq_core.errors import MalformedMessage, PayloadError, PayloadTooDeep
from rmq_core.messages import NewMessage

text = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
payloads = text | st.binary() | st.lists(json_values, max_size=4) | st.dictionaries(text, json_values, max_size=4)


@given(payloads)
def test_a_payload_is_decoded_to_its_original_value(payload: Any) -> None:
    kind, data = encode_payload(payload)
    again = decode_payload(kind, data)
    assert again == payload
    assert type(again) is type(payload)


@given(text, st.dictionaries(text, text, max_size=3), st.integers(0, 10**6), st.binary(max_size=40))
def test_an_envelope_is_decoded_into_its_original_parts(
    payload: str, headers: dict[str, str], deliveries: int, history: bytes
) -> None:
    kind, data = encode_payload(payload)
    body = codec.body("id-1", kind, data, encode_headers(headers))
    envelope = b"%d 17 %d %b%b" % (deliveries, len(history), history, body)
    assert codec.split(envelope) == (deliveries, 17, history, "id-1", "s", encode_headers(headers), data)


@pytest.mark.parametrize(
    ("payload", "encoded"),
    [
        ("ż", ("s", "ż".encode())),
        (b"\xff", ("b", b"\xff")),
        ({"b": 1, "a": [1.5, None, True]}, ("j", b'{"a":[1.5,null,true],"b":1}')),
        (["ż", {}], ("j", '["ż",{}]'.encode())),
    ],
)
def test_payloads_have_one_canonical_form(payload: Any, encoded: tuple[str, bytes]) -> None:
    assert encode_payload(payload) == encoded


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        (None, "payload is None, as a function without a return gives; publish {} for an empty message"),
        (NewMessage("a"), "payload is a NewMessage, which publish_many and stage of leased queues take"),
        ([NewMessage("a")], r"payload\[0\] is a NewMessage"),
        ("a\ud800b", r"payload holds a lone surrogate at character 1"),
        (["a", "\udfff"], r"payload\[1\] holds a lone surrogate at character 0"),
        ({"\ud800": 1}, r"a key of payload holds a lone surrogate"),
        ({"a": {"b": [0, float("nan")]}}, r"payload\['a'\]\['b'\]\[1\] is nan"),
        ([float("inf")], r"payload\[0\] is inf"),
        ([[-float("inf")]], r"payload\[0\]\[0\] is -inf"),
        ({"a": [{1: "x"}]}, r"payload\['a'\]\[0\] has the key 1; keys must be str"),
        ({None: 1}, "has the key None"),
        ({"a": {1j, 2}}, r"payload\['a'\]\[\d\] is a complex"),
        ([b"x"], r"payload\[0\] is a bytes, which the codec json does not write; convert it"),
        ([(object(),)], r"payload\[0\]\[0\] is a object"),
        ([10**5000], r"payload\[0\] is a number of over 4,000 digits"),
    ],
)
def test_a_payload_that_cannot_be_stored_is_refused_with_the_path_to_the_culprit(payload: Any, complaint: str) -> None:
    with pytest.raises(PayloadError, match=complaint):
        encode_payload(payload)


@pytest.mark.parametrize("nested", [[[[]]], {"a": {"b": {}}}, [{"a": []}]])
def test_the_depth_of_a_payload_is_bounded(nested: Any) -> None:
    encode_payload(nested, PayloadLimits(max_payload_depth=3))
    with pytest.raises(PayloadTooDeep, match=r"payload\[.*\]\[.*\] nests deeper than max_payload_depth"):
        encode_payload(nested, PayloadLimits(max_payload_depth=2))


def test_a_payload_that_contains_itself_is_too_deep() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(PayloadTooDeep):
        encode_payload(endless)


@pytest.mark.parametrize(
    "headers", [{"a": 1}, {1: "a"}, {"a": None}, {"a": "\ud800"}, {"\ud800": "a"}, [("a", "b")], "ab"]
)
def test_headers_map_text_to_text(headers: Any) -> None:
    with pytest.raises(PayloadError, match="headers"):
        encode_headers(headers)


@pytest.mark.parametrize(
    "entry",
    [
        b"", b"hello", b"1 2 3", b"x 2 0 id s0 payload", b"1 2 0 id s", b"1 2 0 id", b"1 2 0 id sx a",
        b"1 2 0 \xff s0 a", b"0 1 99 id s0 a",
    ],
)  # fmt: skip
def test_an_entry_without_an_envelope_is_malformed(entry: bytes) -> None:
    with pytest.raises(MalformedMessage, match=f"entry of {len(entry)} bytes"):
        codec.split(entry)


@pytest.mark.parametrize(("kind", "data"), [("s", b"\xff"), ("j", b"{"), ("j", b"\xff")])
def test_a_stored_payload_that_does_not_match_its_kind_is_malformed(kind: str, data: bytes) -> None:
    with pytest.raises(MalformedMessage, match=f"payload of {len(data)} bytes"):
        decode_payload(kind, data)


def test_digests_have_128_bits_and_differ_for_different_kinds() -> None:
    digests = {digest(kind, key) for kind in ("s", "b", "j", "key") for key in (b"", b"1", b"1 ")}
    assert len(digests) == 12
    assert {len(digest) for digest in digests} == {16}
    assert digest("s", b"1") == digest("s", b"1")


@pytest.mark.parametrize(("kind", "payload"), [("S", "aaaaaaaaaa"), ("B", b"aaaaaaaaaa"), ("J", 1111111111)])
def test_a_payload_that_another_program_compressed_is_read(kind: str, payload: object) -> None:
    stored = "789c4b4c84010014e103cb" if kind != "J" else "789c33348401000a9101eb"
    message = codec.message_of(b"0 1 0 id %b0 %b" % (kind.encode(), bytes.fromhex(stored)))
    assert (message.kind, message.payload) == (kind.lower(), payload)
