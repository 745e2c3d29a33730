"""Who is inside a queue object, and whether it is closed. Its state is its own and is never written to Redis."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Token
from typing import Any, NamedTuple

from rmq_core.message_queue.gateway import giving_up


class World(NamedTuple):
    """What differs between calling and awaiting: how to pause, and who is calling."""

    pause: Callable[[float], Any]
    me: Callable[[], int]


class Gate:
    """Where `drain` looks. No lock: a signal handler that drains may have interrupted the holder of any."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.draining = self.drained = False
        self.publishing: list[int] = []
        self.claiming: list[int] = []

    def inside(self, place: list[int]) -> Inside:
        """Stand in `publishing` or `claiming` for a block; what waits there is told when the queue is drained."""
        return Inside(self, place)

    def others(self, place: list[int]) -> bool:
        """Whether anybody but the caller is inside; it would wait for ever for what it has interrupted itself."""
        me = self.world.me()
        return any(other != me for other in place)

    def is_draining(self) -> bool:
        """What those who wait inside ask."""
        return self.draining


class Inside:
    """Somebody in a place of a gate. No generator: every publish and every claim makes one of these."""

    __slots__ = ("_gate", "_me", "_place", "_token")
    _token: Token[Callable[[], bool] | None]

    def __init__(self, gate: Gate, place: list[int]) -> None:
        self._gate, self._place, self._me = gate, place, gate.world.me()

    def __enter__(self) -> None:
        self._token = giving_up.set(self._gate.is_draining)
        self._place.append(self._me)

    def __exit__(self, *_: object) -> None:
        self._place.remove(self._me)
        giving_up.reset(self._token)
