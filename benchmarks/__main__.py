"""`python -m benchmarks`: measure everything and write the documents; `--quick` and `--only` print instead.

`build/measured/results.md` compares RMQ with a bare redis-py loop, `peers.md` with libraries that do the same work.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import (
    async_batches,
    async_loops,
    batches,
    chunks,
    columns,
    cores,
    groups,
    idling,
    inflight,
    jobs,
    local_spark,
    loops,
    memory,
    message_queue,
    processes,
    report,
    shards,
    spark_json,
    spark_read,
    spark_transfer,
    spark_write,
    waking,
)
from benchmarks.figures import Findings, Target
from benchmarks.targets import REASONS, TARGETS
from tests.servers.matrix import version

MEASURED = Path(__file__).parents[1] / "build" / "measured"
ALONE = """\
# Benchmark results

`make bench` measures everything in one run, on servers it starts itself (no persistence, TCP on the loopback). Payloads
are text of 190 bytes. A ratio is RMQ's rate over the rate of a bare redis-py loop. Short slices of the two alternate,
and each slice of RMQ is compared with the slices of the bare loop before and after it. A figure is the median of these
ratios, with their quartiles in brackets. The server has a core of its own. The bare loop calls `EVALSHA` of `return 1`;
for batches of 1000 it is a pipeline of 1000 `LPUSH`; for waiters it is a `BLMOVE`, and time is measured from the
publisher's send to the moment another process has the message. The async façade is compared with `redis.asyncio`.
Memory is the growth of `used_memory`. Queues with groups are compared with a plain one, in processor time of the
server, and queues in shards in that of the busiest of three nodes. The docstrings of the benchmark modules give
details. Rates and times are context: they apply only to this machine."""
BESIDE = """\
# RMQ compared with other libraries

`make bench` measures everything in one run, on servers it starts itself (no persistence, TCP on the loopback). Each
library runs in a process and an environment of its own, all on the same Python and against the same server. A ratio is
RMQ's rate over that of the library: short slices of both alternate, and the figure is the median of all rounds, with
their quartiles in brackets. `processor` is the same ratio in processor time of client and server. In the comparison
with redis-message-queue, the operating system places server and clients on cores, as it does by default; the rates are
measured once more with the server on a core of its own. In that comparison RMQ uses the newest redis-py that
redis-message-queue 7.0.0 accepts. It is a little quicker than redis-py 8, which the newest release of
redis-message-queue requires. In the comparison with job queues, the server always has a core of its own. The docstrings
of `message_queue.py` and `jobs.py` give details. Rates and times are context: they apply only to this machine."""
PEERS = ("message_queue", "jobs")
MEMORY_SERVERS = ("7.0", "8.6")


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to measure: rounds, samples, seconds, counts."""

    loops: int
    batches: int
    wakes: int
    idle_s: float
    kept: int
    flight_rounds: int
    levels: tuple[int, ...]
    crowd_rounds: int
    chunked: int
    shards: tuple[int, int, float]
    sides: int
    rings: int
    job_rounds: int
    spark_rounds: int
    spark_messages: int
    spark_streamed: int


FULL = Effort(
    loops=100, batches=60, wakes=1500, idle_s=10, kept=50_000, flight_rounds=15, levels=(1, 10**3, 10**5, 10**6),
    crowd_rounds=3, chunked=10**6, shards=(15, 10**5, 6), sides=40, rings=150, job_rounds=9,
    spark_rounds=9, spark_messages=200_000, spark_streamed=10**7,
)  # fmt: skip
QUICK = Effort(
    loops=15, batches=8, wakes=200, idle_s=6, kept=10_000, flight_rounds=4, levels=(1, 10**3, 10**4),
    crowd_rounds=1, chunked=10**5, shards=(3, 10**4, 2), sides=5, rings=20, job_rounds=1,
    spark_rounds=2, spark_messages=20_000, spark_streamed=10**5,
)  # fmt: skip


def measurements(server: str, effort: Effort) -> dict[str, Callable[[], Findings]]:
    """Return all measurements by name; each runs on fresh servers."""

    def on_one(measure: Callable[..., Findings], *args: object) -> Callable[[], Findings]:
        return lambda: _on(server, measure, *args)

    return {
        "loops": on_one(loops.measure, effort.loops),
        "async_loops": on_one(async_loops.measure, effort.loops),
        "batches": on_one(batches.measure, effort.batches),
        "async_batches": on_one(async_batches.measure, effort.batches),
        "groups": lambda: _groups(server, effort.batches),
        "shards": lambda: shards.measure(server, *effort.shards),
        "waking": on_one(waking.measure, effort.wakes),
        "idling": on_one(idling.measure, effort.idle_s),
        "memory": lambda: _memory(effort.kept),
        "inflight": lambda: inflight.measure(server, effort.flight_rounds, effort.levels),
        "processes": on_one(processes.measure, effort.crowd_rounds),
        "chunks": on_one(chunks.measure, effort.chunked),
        "columns": on_one(columns.measure, effort.spark_rounds, effort.spark_messages),
        "message_queue": on_one(message_queue.measure, effort.sides, effort.rings),
        "spark": lambda: _spark(effort),
        "jobs": lambda: _on(jobs.SERVER, jobs.measure, effort.job_rounds),
    }


def _on(server: str, measure: Callable[..., Findings], *args: object) -> Findings:
    with cores.server(server) as running:
        return measure(running.port, *args)


def _groups(server: str, rounds: int) -> Findings:
    with cores.server(server) as running:
        return groups.measure(running.port, running.process.pid, rounds)


def _spark(effort: Effort) -> Findings:
    found = spark_read.measure(effort.spark_rounds, effort.spark_messages, effort.spark_streamed)
    found.add(spark_write.measure(effort.spark_rounds, effort.spark_messages))
    with local_spark.session() as spark:
        found.add(spark_json.measure(spark, effort.spark_rounds, effort.spark_messages))
        found.add(spark_transfer.measure(spark, effort.spark_streamed))
    return found


def _memory(count: int) -> Findings:
    found = Findings()
    for server in MEMORY_SERVERS:
        found.add(_on(server, memory.measure, count, server))
    return found


def main() -> None:
    options = _options()
    todo = measurements(options.server, QUICK if options.quick else FULL)
    chosen = options.only or list(todo)
    write = not options.quick and not options.only
    alone = [name for name in chosen if name not in PEERS]
    if alone:
        spark = spark_read.TARGETS | spark_write.TARGETS | spark_json.TARGETS | spark_transfer.TARGETS
        reasons = REASONS | spark_read.REASONS | spark_write.REASONS | spark_transfer.REASONS
        text = _document(ALONE, alone, todo, TARGETS | columns.TARGETS | spark, reasons, options.server)
        _publish(text, MEASURED / "results.md" if write else None)
    beside = [name for name in chosen if name in PEERS]
    if beside:
        targets, reasons = message_queue.TARGETS | jobs.TARGETS, message_queue.REASONS | jobs.REASONS
        text = _document(BESIDE, beside, todo, targets, reasons, options.server)
        _publish(text, MEASURED / "peers.md" if write else None)


def _document(
    opening: str,
    names: Sequence[str],
    todo: Mapping[str, Callable[[], Findings]],
    targets: Mapping[str, Target],
    reasons: Mapping[str, str],
    server: str,
) -> str:
    machine = report.Machine([version(name) for name in dict.fromkeys((server, *MEMORY_SERVERS))])
    findings = Findings()
    for name in names:
        began = time.monotonic()
        print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
        findings.add(todo[name]())
        print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    return report.render(findings, targets, reasons, machine, opening)


def _publish(text: str, path: Path | None) -> None:
    print(text)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure RMQ in ratios to a bare redis-py loop."
    )
    parser.add_argument("--quick", action="store_true", help="take less than a minute, with more noise; only print")
    parser.add_argument(
        "--only", nargs="+", choices=measurements("", QUICK), help="only these measurements; only print"
    )
    parser.add_argument("--server", default="7.0", help="the server, for all but memory; the targets apply to 7.0")
    return parser.parse_args()


if __name__ == "__main__":
    main()
