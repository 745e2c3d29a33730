from __future__ import annotations

import os
import re

from rmq_core.envelope import codec
from rmq_core.kernel.keys import check_name


def in_a_child(make: str) -> str:
    """Return what `ids.<make>()` returns first in a forked child."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, getattr(codec, make)().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as pipe:
        return pipe.read()


def test_nonces_are_64_random_bits() -> None:
    nonces = {codec.nonce() for _ in range(1000)}
    assert len(nonces) == 1000
    assert all(re.fullmatch("[0-9a-f]{16}", nonce) for nonce in nonces)


def test_message_ids_are_unique_and_hold_no_space() -> None:
    made = [codec.new_id() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert all(re.fullmatch("[0-9a-f]{16}-[0-9a-f]+", new) for new in made)


def test_lease_ids_are_unique_and_cannot_be_chosen_by_a_caller() -> None:
    made = [codec.anonymous_lease_id() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert all(check_name("lease_id", new).startswith("~") for new in made)


def test_a_forked_child_does_not_repeat_its_parents_ids() -> None:
    for make in ("new_id", "anonymous_lease_id"):
        child, mine = in_a_child(make), getattr(codec, make)()
        assert child
        assert child.lstrip("~")[:16] != mine.lstrip("~")[:16]
