"""The worker processes of `RedisMessageQueue` and of the compared libraries, and the race that times them in turn."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import redis

from benchmarks import cores
from benchmarks.beside import Laps
from benchmarks.jobs_tally import Taken
from benchmarks.message_queue_peers import OURS, ROOT, WORKER, Peer, interpreter

CALLS = 100
BLOCKS = 8
PLACES = {"": cores.anywhere, ", server on a core of its own": cores.apart}
"""Functions that place the server and the clients on cores, by the suffix of the figures measured that way."""


class Answer(NamedTuple):
    """The result of a command, and the time it took."""

    told: Any
    taken: Taken


class Hand:
    """A worker process of one library."""

    def __init__(self, peer: Peer, port: int, server_pid: int) -> None:
        self.peer = peer
        self.process = subprocess.Popen(
            [interpreter(peer), "-m", WORKER, peer.module, str(port), str(server_pid)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
        )  # fmt: skip
        self._answer()

    def do(self, command: str, count: int = 1) -> Answer:
        """Send the worker a command, and wait for its answer."""
        self.begin(command, count)
        return self.end()

    def begin(self, command: str, count: int = 1) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{command} {count}\n")
        self.process.stdin.flush()

    def end(self) -> Answer:
        told, taken = json.loads(self._answer())
        return Answer(told, Taken(*taken))

    def stop(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _answer(self) -> str:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker of {self.peer.name} ended; its own error is printed above")
        return line


class Race:
    """Time one command of several libraries. A slice is `CALLS` calls by one library.

    RMQ runs a slice before and after each slice of another library. Blocks of slices alternate between the placements.
    filled: the command needs messages in the queue.
    """

    def __init__(self, client: redis.Redis, server_pid: int, command: str, *, filled: bool) -> None:
        self._client, self._server_pid = client, server_pid
        self._command, self._filled = command, filled

    def run(self, hands: Sequence[Hand], rounds: int) -> dict[str, dict[str, Laps]]:
        """Return the laps by placement, then by the name of the library."""
        found = {place: {hand.peer.name: Laps() for hand in hands} for place in PLACES}
        for _ in range(BLOCKS):
            for place, put in PLACES.items():
                self._put(put, hands)
                self._block(hands, max(1, rounds // BLOCKS), found[place])
        self._put(cores.apart, hands)
        return found

    def _put(self, put: Callable[[int, Sequence[int]], None], hands: Sequence[Hand]) -> None:
        put(self._server_pid, [0, *(hand.process.pid for hand in hands)])

    def _block(self, hands: Sequence[Hand], rounds: int, laps: dict[str, Laps]) -> None:
        """Run one block; the first slice of each library, which warms up in the new placement, does not count."""
        ours, *others = sorted(hands, key=lambda hand: hand.peer is not OURS)
        for hand in others:
            self._slice(hand)
        before = self._slice(ours)
        for hand in others * rounds:
            taken, after = self._slice(hand), self._slice(ours)
            laps[hand.peer.name].note(taken, (before, after))
            laps[ours.peer.name].note(after, (after,))
            before = after

    def _slice(self, hand: Hand) -> Taken:
        self._client.flushall()
        if self._filled:
            hand.do("publish", CALLS)
        return hand.do(self._command, CALLS).taken.per(CALLS)
