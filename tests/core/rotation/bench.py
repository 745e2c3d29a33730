"""Helpers of the tests of the rotation discipline."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from rmq_core.rotation import RotationConfig
from rmq_core.rotation.state import RotationKeys
from tests.core.worlds import World

KEYS = RotationKeys("q")
T = TypeVar("T")


def rotation(world: World, name: str = "q", **settings: Any) -> Any:
    """A queue of ids."""
    return world.open("rotation", name, RotationConfig(**settings))


def entries(world: World, name: str = "q") -> list[bytes]:
    """Return the list, the next entry to pop first."""
    return list(reversed(world.client.lrange(name, 0, -1)))


def ids(messages: Iterable[Any]) -> list[Any]:
    return [message.payload for message in messages]


def now_s(world: World) -> int:
    return int(world.client.time()[0])


def within_one_second(world: World, act: Callable[[int], T]) -> T:
    """What `act` of the server's time returned when the second was still the same afterwards; it is done again else."""
    while True:
        before = now_s(world)
        result = act(before)
        if now_s(world) == before:
            return result


def put(world: World, *stored: str) -> None:
    """Write these entries to the list, the next to pop first, and mark those with a timestamp as taken."""
    world.client.delete(KEYS.list, KEYS.taken)
    world.client.lpush(KEYS.list, *stored)
    for entry in stored:
        if "|" in entry and not entry.endswith("|0"):
            world.client.hincrby(KEYS.taken, entry.rpartition("|")[0], 1)


def age(world: World, seconds: int = 3600) -> None:
    """Move all timestamps into the past."""
    found = [entry.decode() for entry in entries(world)]
    old = [f"{name}|{int(stamp) - seconds}" if bar else last for entry in found
           for name, bar, last, stamp in [_apart(entry)]]  # fmt: skip
    world.client.delete(KEYS.list)
    world.client.lpush(KEYS.list, *old)


def _apart(entry: str) -> tuple[str, str, str, str]:
    name, bar, stamp = entry.rpartition("|")
    stamped = len(stamp) == 10 and stamp.isdigit()
    return name, bar if stamped else "", entry, stamp
