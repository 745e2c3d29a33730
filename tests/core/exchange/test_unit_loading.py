from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from rmq_core.exchange.loading import Parameter, load


def test_the_id_of_a_script_is_the_hash_of_what_is_sent() -> None:
    script = load("leased/ack")
    assert script.sha == hashlib.sha1(script.source).hexdigest().encode()
    assert script.name == "leased/ack"


def test_includes_are_inserted_and_comments_removed() -> None:
    source = load("leased/ack").source.decode()
    assert "local function replay()" in source
    assert "include:" not in source
    assert not [line for line in source.splitlines() if not line.strip() or line.lstrip().startswith("--")]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Replace our scripts and includes by these, by their names."""
    files: dict[str, str] = {}

    def read(name: str) -> str:
        if name not in files:
            raise FileNotFoundError(name)
        return files[name]

    monkeypatch.setattr("rmq_core.exchange.loading._read", read)
    load.cache_clear()
    yield files
    load.cache_clear()


def test_a_header_names_the_keys_and_arguments_of_the_script(written: dict[str, str]) -> None:
    written["one"] = """-- Does something.
-- KEYS: slot  ready  done?, for a lease that has
--         a name
-- ARGV: seq  slot_ttl_ms  most:number, or 0  ids..., of messages
-- Reply: 'done'.
return ready
"""
    script = load("one")
    assert script.source.decode().splitlines() == [
        "local KEYS, ARGV = KEYS, ARGV",
        "local slot, ready, done = KEYS[1], KEYS[2], KEYS[3]",
        "local seq, slot_ttl_ms, most, ids = ARGV[1], ARGV[2], tonumber(ARGV[3]), #ARGV < 7000 and {unpack(ARGV, 4)}",
        "if not ids then ids = {} for i = 4, #ARGV do ids[i - 3] = ARGV[i] end end",
        "return ready",
    ]
    assert script.has_slot
    assert script.own == (
        (Parameter("ready"), Parameter("done", is_optional=True)),
        (Parameter("most", is_number=True), Parameter("ids", is_list=True)),
    )


@pytest.mark.parametrize("keys", ["ready  ready", "Ready", "ready 2", "ids...  ready"])
def test_an_invalid_header_is_refused(written: dict[str, str], keys: str) -> None:
    written["one"] = f"-- Does something.\n-- KEYS: {keys}\n-- ARGV: none\n-- Reply: 'done'.\n"
    with pytest.raises(ValueError, match=r"one.lua, KEYS: '.*' is malformed, repeated, or a list that is not last"):
        load("one")


def test_a_local_of_an_include_hides_no_parameter(written: dict[str, str]) -> None:
    """A script would read the local instead, and do something else than it was asked to."""
    written["room/one"] = "-- Does something.\n-- KEYS: none\n-- ARGV: policy\n-- include: a\nreturn policy\n"
    written["room/include/a"] = "local old, policy = 1, 2\n"
    with pytest.raises(ValueError, match=r"room/one.lua: a local, perhaps of an include, would hide .* policy"):
        load("room/one")


def test_an_include_is_preceded_by_its_own_includes_and_each_occurs_once(written: dict[str, str]) -> None:
    written["room/one"] = "-- Does something.\n-- KEYS: none\nfirst()\n-- include: a\n-- include: b\n"
    written["room/include/a"] = "-- include: b\nlocal a\n"
    written["kernel/include/b"] = "local b\n"
    assert load("room/one").source.decode().splitlines() == ["first()", "local b", "local a"]
