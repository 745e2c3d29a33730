"""Compare the job queue with other job libraries, all in processes of their own against the same Redis 8.6.

Short slices of each library run between two slices of RMQ, and every figure is RMQ's rate over the library's. Jobs are
a name and about 190 bytes of JSON, handlers do nothing. Each library runs in one process and keeps no results; the
modules `jobs_async` and `jobs_sync` list the other settings. The timing of a worker covers the middle part of its jobs,
so that neither its start nor its prefetched jobs count. The processor time, of client and server together, is reported
as well: other work on the machine changes it less than it changes rates.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Self

import redis

from benchmarks.beside import Laps
from benchmarks.figures import Figure, Findings, Table, Target
from benchmarks.jobs_peers import CHASQUI, OTHERS, RMQ, RMQ_SYNC, Rival
from benchmarks.jobs_tally import Taken
from benchmarks.message_queue_peers import ROOT, Missing, interpreter, version

SERVER = "8.6"
ADDED, TRIED, MOST = 100, 300, 10_000
SLICE_S = 0.3
MORE_OFTEN = 5
"""Slices that only add are short, so this many times more of them run."""
ROWS = {
    "add": ("add", 1),
    "add_bulk of 50": ("add_bulk", 50),
    "add_bulk of 1,000": ("add_bulk", 1000),
    "worker, one job at a time": ("work", 1),
    "worker, best concurrency": ("work", 0),
}
"""Commands of `jobs_worker` and their width; 0 means the library's best."""
_OVER_CHASQUI = {"add": 1.2, "add_bulk of 50": 1.0, "worker, one job at a time": 1.5, "worker, best concurrency": 1.5}
TARGETS = {
    **{f"jobs, {row}, over chasquimq": Target(bound) for row, bound in _OVER_CHASQUI.items()},
    **{f"jobs, {row}, over the best of the others": Target(1.0) for row in ROWS},
}
_SHARED = (
    " The quickest slices show both libraries on an otherwise idle machine; when other work shared its cores, RMQ lost"
    " more time than chasquimq, whose client runs ten threads where RMQ's runs one."
)
REASONS = {
    "jobs, add, over chasquimq": (
        "a call costs the client 53 µs, of which 34 are what asyncio and redis-py need for any round trip, and 5 are"
        " for the job; the server 25, as `return 1` does. chasquimq takes 93 and 22." + _SHARED
    ),
    "jobs, add, over the best of the others": (
        "huey pushes a pickle to a list and cannot recognise a resent call; that takes its client 55 µs and the server"
        " 20, where RMQ's script, which recognises resent calls, takes 38 and 25. Most of both is the round trip."
    ),
    "jobs, add_bulk of 50, over chasquimq": (
        "of 9.3 µs a job, 5 go into its text (JSON and the checks of what JSON would change take 2.3 of them), 1 into"
        " the call, and 3 into the server's XADD, one after the other: a chunk is one script, and so added whole or"
        " not at all. chasquimq takes more processor time, but its native threads use it while the server works."
        + _SHARED
    ),
}
"""The reason, found by a profile, why a figure may miss its target."""
_TITLE = "Jobs, compared with other libraries"
_NOTE = (
    "Each number is RMQ's rate divided by the library's. The brackets contain the library's own rate, and its processor"
    " time for a job, client and server together, divided by RMQ's. The last column is the number of concurrent jobs at"
    " which the library is fastest. Adding is compared with RMQ's queue of the same kind, with or without asyncio."
    " chasquimq and RMQ keep their events, the others have none. `taskiq-redis, list` and huey delete a job when a"
    " worker takes it, celery when the job begins."
)


class Hand:
    """The worker process of one library."""

    def __init__(self, rival: Rival, port: int, server_pid: int) -> None:
        python = interpreter(rival.peer)
        self.rival = rival
        self.version = version(python, rival.package)
        self.process = subprocess.Popen(
            [python, "-W", "ignore", "-m", "benchmarks.jobs_worker", rival.library, str(port), str(server_pid)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self._answer()

    def do(self, command: str, count: int, width: int) -> Taken:
        """Send the process a command; return the time of one job."""
        assert self.process.stdin
        self.process.stdin.write(f"{command} {count} {width}\n")
        self.process.stdin.flush()
        return Taken(*json.loads(self._answer()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()

    def _answer(self) -> str:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.rival.name} ended; its own error is printed above")
        return line


def measure(port: int, rounds: int) -> Findings:
    """Measure all figures and the table; without libraries to compare with, return a table that gives the reason."""
    client = redis.Redis(port=port)
    server_pid = _server_pid(client)
    with ExitStack() as stack:
        try:
            hands = [stack.enter_context(Hand(rival, port, server_pid)) for rival in (RMQ, RMQ_SYNC, CHASQUI, *OTHERS)]
        except Missing as missing:
            return Findings(tables=[Table(_TITLE, (), (), f"Not measured: {missing}.")])
        found = {row: _race(client, hands, row, rounds) for row in ROWS}
    figures = [figure for row in ROWS for figure in _figures(row, found[row])]
    return Findings(figures, [Table(_TITLE, ("library", *ROWS, "best concurrency"), list(_lines(hands, found)), _NOTE)])


def _server_pid(client: redis.Redis) -> int:
    return int(client.info("server")["process_id"])


def _race(client: redis.Redis, hands: Sequence[Hand], row: str, rounds: int) -> dict[str, Laps]:
    """Return the laps of every library that supports a row, by its name."""
    command, _ = ROWS[row]
    ours = {hand.rival: _slice(client, hand, row) for hand in hands if _is_ours(hand.rival, command)}
    others = {
        hand.rival: _slice(client, hand, row)
        for hand in hands
        if hand.rival not in (RMQ, RMQ_SYNC) and (hand.rival.bulk or command != "add_bulk")
    }
    laps = {rival.name: Laps() for rival in (*ours, *others)}
    last, after = None, Taken(0, 0, 0)
    for rival, run in [*others.items()] * (rounds if command == "work" else rounds * MORE_OFTEN):
        own = RMQ_SYNC if rival.sync and RMQ_SYNC in ours else RMQ
        before = after if own is last else ours[own]()
        taken, after, last = run(), ours[own](), own
        laps[rival.name].note(taken, (before, after))
        laps[own.name].note(after, (after,))
    return laps


def _is_ours(rival: Rival, command: str) -> bool:
    return rival is RMQ or (rival is RMQ_SYNC and command != "work")


def _slice(client: redis.Redis, hand: Hand, row: str) -> partial[Taken]:
    """Return a library's slice; a warm-up slice first determines how many jobs it contains."""
    command, width = ROWS[row]
    wide = width or hand.rival.best

    def run(count: int) -> Taken:
        client.flushall()
        return hand.do(command, count, wide)

    if command == "add":
        run(ADDED)
        return partial(run, ADDED)
    tried = run(max(TRIED, width))
    slice_s = SLICE_S if command == "work" else SLICE_S / MORE_OFTEN
    fitting = min(MOST, max(TRIED, int(slice_s / tried.wall_s)))
    return partial(run, max(1, fitting // wide) * wide if command == "add_bulk" else fitting)


def _figures(row: str, laps: Mapping[str, Laps]) -> Iterator[Figure]:
    others = [rival for rival in OTHERS if rival.name in laps]
    best = min(others, key=lambda rival: laps[rival.name].ratio.median)
    for rival, name in ((CHASQUI, "chasquimq"), (best, "the best of the others")):
        own = RMQ_SYNC if rival.sync and RMQ_SYNC.name in laps else RMQ
        quick = f"{laps[rival.name].quick_s / laps[own.name].quick_s:.2f} of the quickest slices"
        context = f"{own.name} {laps[own.name].rate}, {rival.name} {laps[rival.name].shown}; {quick}"
        yield Figure(f"jobs, {row}, over {name}", laps[rival.name].ratio, context=context)


def _lines(hands: Sequence[Hand], found: Mapping[str, Mapping[str, Laps]]) -> Iterator[Sequence[str]]:
    for hand in hands:
        rival = hand.rival
        ours = rival in (RMQ, RMQ_SYNC)
        name = rival.name if ours else f"{rival.name} {hand.version}"
        cells = (_cell(laps.get(rival.name), ours=ours) for laps in found.values())
        yield name, *cells, str(rival.best or "")


def _cell(laps: Laps | None, *, ours: bool) -> str:
    if laps is None:
        return "" if ours else "adds one by one"
    return laps.rate if ours else f"{laps.ratio.median:.2f} ({laps.shown})"
