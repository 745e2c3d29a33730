from __future__ import annotations

from typing import Any

import pytest

from rmq_core.errors import PayloadTooDeep
from rmq_core.redis_message_queue.config import PayloadRules


def test_a_payload_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = [loop]
    with pytest.raises(ValueError, match="contains itself"):
        PayloadRules().serialize(loop)


def test_a_value_that_occurs_twice_is_not_a_cycle() -> None:
    part = {"x": 1}
    assert PayloadRules().serialize({"a": part, "b": part}) == '{"a": {"x": 1}, "b": {"x": 1}}'


def test_depth_counts_nested_containers() -> None:
    rules = PayloadRules(max_depth=2)
    assert rules.serialize({"a": [1]}) == '{"a": [1]}'
    with pytest.raises(PayloadTooDeep, match="max_payload_depth=2"):
        rules.serialize({"a": [[]]})
