from __future__ import annotations

import re
from typing import Any

import pytest

from rmq_core import ConfigurationError
from rmq_core.reliable import ReliableConfig, state
from rmq_core.reliable.state import ReliableKeys


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout", 0),
        ("timeout", "10"),
        ("retry_budget", 0),
        ("max_deliveries", 0),
        ("max_dead", 0),
        ("max_payload_bytes", 0),
        ("max_payload_depth", 501),
        ("worker", "{w}"),
        ("worker", ""),
    ],
)
def test_an_invalid_setting_raises_an_error_that_names_it(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=name):
        ReliableConfig(**{name: value})


def test_the_schema_in_the_docstring_lists_every_key() -> None:
    keys = ReliableKeys("q")
    listed = set(re.findall(r"^rmq:reliable:\{q\}:(\w+)", state.__doc__ or "", re.MULTILINE))
    own = vars(keys).keys() - {"name", "prefix", "list"}
    assert listed == own | {"processing", "claims", "slot"}
    assert all(getattr(keys, name) == f"rmq:reliable:{{q}}:{name}".encode() for name in own)
    assert (keys.processing("w"), keys.claims("w")) == (keys.prefix + b"processing:w", keys.prefix + b"claims:w")
