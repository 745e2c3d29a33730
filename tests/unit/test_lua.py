from __future__ import annotations

import hashlib

import pytest

from rmq_core.lua import load


def test_a_script_is_known_by_the_hash_of_what_is_sent() -> None:
    script = load("leased/ack")
    assert script.sha == hashlib.sha1(script.source).hexdigest().encode()
    assert script.name == "leased/ack"


def test_includes_are_spliced_in_and_comments_taken_out() -> None:
    source = load("leased/ack").source.decode()
    assert "local function replay()" in source
    assert "include:" not in source
    assert not [line for line in source.splitlines() if not line.strip() or line.lstrip().startswith("--")]


def test_a_script_is_read_once() -> None:
    assert load("leased/ack") is load("leased/ack")


def test_an_unknown_script_is_not_found() -> None:
    with pytest.raises(FileNotFoundError):
        load("leased/unknown")
