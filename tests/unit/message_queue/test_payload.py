from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rmq_core.compat.payload import PayloadRules
from rmq_core.errors import PayloadError, PayloadTooDeep, PayloadTooLarge


def test_text_is_stored_unchanged() -> None:
    assert PayloadRules().serialize("größe") == "größe"


def test_a_dict_becomes_json_with_sorted_keys() -> None:
    assert PayloadRules().serialize({"b": [1, (2, 3)], "a": "é"}) == '{"a": "\\u00e9", "b": [1, [2, 3]]}'


@pytest.mark.parametrize("message", [None, 1, b"x", ["x"], ("x",)])
def test_a_message_that_is_neither_text_nor_dict_is_refused(message: Any) -> None:
    with pytest.raises(TypeError, match="'message' must be a str or a dict"):
        PayloadRules().serialize(message)


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({1: "x"}, "message has the key 1"),
        ({"a": {2: "x"}}, r"message\['a'\] has"),
        ({"a": [({3: 0},)]}, r"\[0\]\[0\] has"),
    ],
)
def test_keys_that_json_would_change_are_refused_at_any_depth(message: Any, path: str) -> None:
    with pytest.raises(TypeError, match=path):
        PayloadRules().serialize(message)


def test_a_payload_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = [loop]
    with pytest.raises(ValueError, match="contains itself"):
        PayloadRules().serialize(loop)


def test_a_value_that_occurs_twice_is_not_a_cycle() -> None:
    part = {"x": 1}
    assert PayloadRules().serialize({"a": part, "b": part}) == '{"a": {"x": 1}, "b": {"x": 1}}'


@pytest.mark.parametrize("message", [{"x": float("nan")}, {"x": [float("-inf")]}, "\ud800"])
def test_a_payload_without_a_stored_form_is_a_value_error(message: Any) -> None:
    with pytest.raises(ValueError):
        PayloadRules().serialize(message)


def test_a_lone_surrogate_names_the_message() -> None:
    with pytest.raises(PayloadError, match="message holds a lone surrogate"):
        PayloadRules().serialize("a\udfff")


def test_size_counts_bytes() -> None:
    rules = PayloadRules(max_bytes=4)
    assert rules.serialize("éé") == "éé"
    with pytest.raises(PayloadTooLarge, match="5 bytes, max_payload_bytes is 4"):
        rules.serialize("ééx")


def test_depth_counts_nested_containers() -> None:
    rules = PayloadRules(max_depth=2)
    assert rules.serialize({"a": [1]}) == '{"a": [1]}'
    with pytest.raises(PayloadTooDeep, match="max_payload_depth=2"):
        rules.serialize({"a": [[]]})


@pytest.mark.parametrize("value", [(1,), {1}, b"x", datetime(2026, 1, 1, tzinfo=UTC)])
def test_strict_types_refuse_values_that_json_lacks(value: Any) -> None:
    with pytest.raises(TypeError, match=rf"message\['x'\]\[0\] is a {type(value).__name__}"):
        PayloadRules(strict=True).serialize({"x": [value]})


def test_strict_types_accept_all_that_json_has() -> None:
    assert PayloadRules(strict=True).serialize({"x": [None, True, 1, 1.5, "s", {}]})
