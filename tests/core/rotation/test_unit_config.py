from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from redis.crc import key_slot

from rmq_core import ConfigurationError
from rmq_core.rotation import RotationConfig, state
from rmq_core.rotation.state import RotationKeys


@pytest.mark.parametrize(
    ("name", "value"),
    [("timeout", -1), ("timeout", 0.5), ("timeout", "30"), ("retry_budget", 0), ("max_id_bytes", 0)],
)
def test_an_invalid_setting_raises_an_error_that_names_it(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=name):
        RotationConfig(**{name: value})


def test_the_timeout_is_whole_seconds() -> None:
    assert RotationConfig(timeout=timedelta(minutes=1)).timeout_s == 60
    assert RotationConfig(timeout=0).timeout_s == 0


@pytest.mark.parametrize("name", ["q", "a queue", "żółw", "a:b"])
def test_all_keys_of_a_queue_lie_in_one_slot_of_a_cluster(name: str) -> None:
    keys = RotationKeys(name)
    made = [key for key in vars(keys).values() if isinstance(key, bytes)]
    assert keys.list == name.encode()
    assert len({key_slot(key) for key in made}) == 1


def test_the_names_of_rmqs_own_keys_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="name"):
        RotationKeys("rmq:queues")


def test_the_schema_in_the_docstring_lists_every_key() -> None:
    keys = RotationKeys("q")
    listed = set(re.findall(r"^rmq:rotation:\{q\}:(\w+)", state.__doc__ or "", re.MULTILINE))
    own = vars(keys).keys() - {"name", "prefix", "list"}
    assert listed == own | {"slot"}
    assert all(getattr(keys, name) == f"rmq:rotation:{{q}}:{name}".encode() for name in own)
