"""`python -m benchmarks`: measure everything and write RESULTS.md; `--quick` and `--only` print instead."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import (
    async_batches,
    async_loops,
    batches,
    chunks,
    cores,
    idling,
    inflight,
    loops,
    memory,
    processes,
    report,
    waking,
)
from benchmarks.figures import Findings
from benchmarks.targets import REASONS, TARGETS
from tests.servers.matrix import version

RESULTS = Path(__file__).with_name("RESULTS.md")
MEMORY_SERVERS = ("7.0", "8.6")


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to look: rounds, samples, seconds, counts."""

    loops: int
    batches: int
    wakes: int
    idle_s: float
    kept: int
    flight_rounds: int
    levels: tuple[int, ...]
    crowd_rounds: int
    chunked: int
    passes: int


FULL = Effort(
    loops=100, batches=60, wakes=2000, idle_s=10, kept=20_000, flight_rounds=25, levels=(1, 10**3, 10**5, 10**6),
    crowd_rounds=5, chunked=10**6, passes=1,
)  # fmt: skip
QUICK = Effort(
    loops=15, batches=8, wakes=200, idle_s=6, kept=10_000, flight_rounds=4, levels=(1, 10**3, 10**4),
    crowd_rounds=1, chunked=10**5, passes=1,
)  # fmt: skip


def measurements(server: str, effort: Effort) -> dict[str, Callable[[], Findings]]:
    """Everything that can be measured, by name; each on fresh servers."""

    def on_one(measure: Callable[..., Findings], *args: object) -> Callable[[], Findings]:
        return lambda: _on(server, measure, *args)

    return {
        "loops": on_one(loops.measure, effort.loops),
        "async_loops": on_one(async_loops.measure, effort.loops),
        "batches": on_one(batches.measure, effort.batches),
        "async_batches": on_one(async_batches.measure, effort.batches),
        "waking": on_one(waking.measure, effort.wakes),
        "idling": on_one(idling.measure, effort.idle_s),
        "memory": lambda: _memory(effort.kept),
        "inflight": lambda: inflight.measure(server, effort.flight_rounds, effort.levels),
        "processes": on_one(processes.measure, effort.crowd_rounds),
        "chunks": on_one(chunks.measure, effort.chunked, effort.passes),
    }


def _on(server: str, measure: Callable[..., Findings], *args: object) -> Findings:
    with cores.server(server) as running:
        return measure(running.port, *args)


def _memory(count: int) -> Findings:
    found = Findings()
    for server in MEMORY_SERVERS:
        found.add(_on(server, memory.measure, count, server))
    return found


def main() -> None:
    options = _options()
    machine = report.Machine([version(name) for name in dict.fromkeys((options.server, *MEMORY_SERVERS))])
    todo = measurements(options.server, QUICK if options.quick else FULL)
    findings = Findings()
    for name in options.only or todo:
        began = time.monotonic()
        print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
        findings.add(todo[name]())
        print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    text = report.render(findings, TARGETS, REASONS, machine)
    print(text)
    if not options.quick and not options.only:
        RESULTS.write_text(text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure RMQ beside a bare redis-py loop."
    )
    parser.add_argument("--quick", action="store_true", help="less than a minute, rougher, only printed")
    parser.add_argument("--only", nargs="+", choices=measurements("", QUICK), help="some of it, only printed")
    parser.add_argument("--server", default="7.0", help="the server for all but memory; targets are for 7.0")
    return parser.parse_args()


if __name__ == "__main__":
    main()
