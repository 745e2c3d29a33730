from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from rmq_core.envelope import codec
from rmq_core.exchange import scripts as module
from rmq_core.exchange.scripts import Slot, Slots


def test_a_slot_in_use_is_not_assigned_again() -> None:
    slots = Slots(b"rmq:{q}:", 30)
    one, two = slots.take(), slots.take()
    assert one.key != two.key
    assert one.key.startswith(b"rmq:{q}:slot:")
    slots.give(one)
    assert slots.take() is one


def test_numbers_of_a_slot_only_grow() -> None:
    slots = Slots(b"", 30)
    seen = []
    for _ in range(5):
        slot = slots.take()
        seen.append((slot.key, slot.seq))
        slots.give(slot)
    assert [seq for _, seq in seen] == [1, 2, 3, 4, 5]
    assert len({key for key, _ in seen}) == 1


def test_two_clients_never_share_a_slot() -> None:
    assert Slots(b"p:", 30).take().key != Slots(b"p:", 30).take().key


@pytest.mark.parametrize(("budget_s", "ttl_ms"), [(0, 60_000), (30, 60_000), (45.5, 91_000), (3600, 7_200_000)])
def test_replies_are_kept_for_twice_the_retry_budget(budget_s: float, ttl_ms: int) -> None:
    assert Slots(b"", budget_s).ttl_ms == ttl_ms


def test_threads_that_take_at_the_same_moment_get_different_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = Slots(b"p:", 30)
    taken: list[Slot] = []

    class Overtaken(Slot):
        """Another thread takes a slot while this one is being made."""

        __slots__ = ()

        def __init__(self, key: bytes) -> None:
            super().__init__(key)
            if not taken:
                taken.append(self)
                thread = threading.Thread(target=lambda: taken.append(slots.take()))
                thread.start()
                thread.join()

    monkeypatch.setattr(module, "Slot", Overtaken)
    slots.take()
    assert len(taken) == 2
    assert taken[0].key != taken[1].key


def in_a_child(call: Any) -> bytes:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, call())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        return pipe.read()


def test_threads_of_a_forked_child_take_no_slot_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = Slots(b"p:", 30)
    slots.give(slots.take())
    parents, drawn = slots.take(), list[Slot]()
    slots.give(parents)

    def overtaken() -> str:
        """Another thread takes a slot while this one finds that it was forked."""
        if not drawn:
            drawn.append(parents)
            thread = threading.Thread(target=lambda: drawn.append(slots.take()))
            thread.start()
            thread.join()
        return codec.nonce()

    monkeypatch.setattr(module, "nonce", overtaken)
    monkeypatch.setattr(codec.process, "id", -1)
    mine = slots.take()
    assert len({parents.key, mine.key, drawn[1].key}) == 3


def test_a_forked_child_has_its_own_slots() -> None:
    slots = Slots(b"p:", 30)
    slots.give(slots.take())
    mine = slots.take().key
    assert in_a_child(lambda: slots.take().key).rsplit(b"/")[0] != mine.rsplit(b"/")[0]
