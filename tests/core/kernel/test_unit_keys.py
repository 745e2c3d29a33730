from __future__ import annotations

import re
from typing import Any

import pytest

from rmq_core import ConfigurationError
from rmq_core.kernel import keys as schema
from rmq_core.kernel.keys import LeasedKeys, check_name


def test_every_key_of_a_queue_has_its_name_as_hash_tag() -> None:
    keys = LeasedKeys("żółw 1")
    made = [getattr(keys, name) for name in LeasedKeys.__annotations__]
    made += [keys.lease("a"), keys.settled("a"), keys.done("a"), keys.dedup(b"\x00"), keys.consumer("a")]
    assert all(key.startswith("rmq:{żółw 1}:".encode()) for key in made)
    assert len(set(made)) == len(made)


def test_the_schema_in_the_docstring_lists_every_key() -> None:
    listed = set(re.findall(r"^\s*rmq:\{q\}:(\w+)", schema.__doc__ or "", re.MULTILINE))
    made = set(LeasedKeys.__annotations__)
    made |= {
        "lease",
        "settled",
        "done",
        "consumer",
        "dedup",
        "slot",
        "stage",
        "staged",
        "sink",
        "import",
        "holds",
        "format",
        "parts",
    }
    assert listed == made


def test_keys_of_one_queue_are_never_those_of_another() -> None:
    assert LeasedKeys("a").lease("b") != LeasedKeys("a:lease").lease("b")
    assert LeasedKeys("a").ready == b"rmq:{a}:ready"
    assert LeasedKeys("a").dedup(b"}") == b"rmq:{a}:dedup:}"


@pytest.mark.parametrize(
    "name", ["", "x" * 513, "a{", "}a", "a\n", "\t", "\x00", "a\u2028b", "\u00a0", "\ud800", 5, None, b"a", ["a"]]
)
def test_anything_else_is_refused_by_parameter(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="lease_id"):
        check_name("lease_id", name)
