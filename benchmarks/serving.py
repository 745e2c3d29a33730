"""`python -m benchmarks.serving`: what `rmq serve` costs, with many queues. Prints two tables of Markdown.

A real Prometheus scrapes the metrics, and reports how long its scrapes took and how many samples they had. The overview
of the console is asked as the page asks: every 2.5 s. The CPU times are those of the processes, from the kernel.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rmq_core import LeasedConfig, LeasedQueue
from tests.monitoring.served import Served, serving
from tests.servers import Server, start_server
from tests.servers.prometheus import Prometheus, running_prometheus

SCRAPE_S, POLL_S = 5, 2.5
TICKS = os.sysconf("SC_CLK_TCK")
ONE_FAILURE = LeasedConfig(max_deliveries=1)


class Cpu(NamedTuple):
    """Seconds of processor time of `rmq serve` and of Redis, and the seconds in which they were used."""

    serve: float
    redis: float
    wall: float

    def __sub__(self, other: Cpu) -> Cpu:
        return Cpu(*(mine - its for mine, its in zip(self, other, strict=True)))


class Bench:
    """A Redis with queues, and a `rmq serve` that shows them."""

    def __init__(self, server: Server, served: Served) -> None:
        self._server, self._served, self.address = server, served, served.address

    def cpu(self) -> Cpu:
        """Return the times until now."""
        return Cpu(cpu_of(self._served.pid), cpu_of(self._server.process.pid), time.monotonic())

    def commands(self) -> int:
        """Return how many commands Redis has run, those in scripts included."""
        with self._server.client() as client:
            return sum(int(each["calls"]) for each in client.info("commandstats").values())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--scraped", type=int, nargs="*", default=[200], help="numbers of queues for Prometheus")
    parser.add_argument("--shown", type=int, nargs="*", default=[1000], help="numbers of queues for the console")
    given = parser.parse_args()
    _table(
        "queues|series|scrape, median|slowest|CPU of serve, a scrape|CPU of Redis, a scrape",
        scrapes, given.scraped, given,
    )  # fmt: skip
    _table(
        "queues|first refresh|median|slowest|not counted after the first|CPU of serve, a minute|CPU of Redis, a minute"
        "|commands, a refresh|bytes", refreshes, given.shown, given,
    )  # fmt: skip


def scrapes(bench: Bench, seconds: int) -> list[str]:
    """Let Prometheus scrape for a time; return the series of a scrape, its duration and the CPU time that it costs."""
    job = {"job_name": "rmq", "static_configs": [{"targets": [bench.address]}]}
    every = {"scrape_interval": f"{SCRAPE_S}s", "scrape_timeout": f"{SCRAPE_S}s"}
    with running_prometheus(json.dumps({"global": every, "scrape_configs": [job]})) as prometheus:
        _wait_for_a_scrape(prometheus)
        before = bench.cpu()
        time.sleep(seconds)
        used = bench.cpu() - before
        count = used.wall / SCRAPE_S
        took = f"scrape_duration_seconds[{seconds}s]"
        median, slowest = (_value(prometheus, f"quantile_over_time({share}, {took})") for share in (0.5, 1))
        series = int(_value(prometheus, "scrape_samples_scraped"))
    return [f"{series:,}", _ms(median), _ms(slowest), _ms(used.serve / count), _ms(used.redis / count)]


def refreshes(bench: Bench, seconds: int) -> list[str]:
    """Refresh the overview for a time, as the page does; return the durations and the CPU time of a minute."""
    took, first = [], _refresh(bench)
    before, commands = bench.cpu(), bench.commands()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        one = _refresh(bench)
        took.append(one.seconds)
        time.sleep(POLL_S)
    used, run = bench.cpu() - before, bench.commands() - commands
    a_minute = [f"{60 * each / used.wall:.1f} s" for each in used[:2]]
    times = (first.seconds, statistics.median(took), max(took))
    return [*map(_ms, times), f"{first.missing}", *a_minute, f"{run / len(took):,.0f}", f"{first.size:,}"]


class Refresh(NamedTuple):
    """An answer of the overview: how long it took, its bytes, and how many queues were not counted in time."""

    seconds: float
    size: int
    missing: int


def _refresh(bench: Bench) -> Refresh:
    began = time.monotonic()
    with urllib.request.urlopen(f"http://{bench.address}/api/connections/redis/queues", timeout=60) as reply:
        text = reply.read()
    found = json.loads(text)
    return Refresh(time.monotonic() - began, len(text), found["total"] - found["counted"])


def _table(head: str, measure: Callable[[Bench, int], list[str]], sizes: list[int], given: argparse.Namespace) -> None:
    for number, queues in enumerate(sizes):
        with _bench(queues) as bench:
            row = [f"{queues:,}", *measure(bench, given.seconds)]
        if not number:
            columns = head.split("|")
            print(f"\n| {' | '.join(columns)} |\n|{'---:|' * len(columns)}")
        print(f"| {' | '.join(row)} |", flush=True)


@contextmanager
def _bench(queues: int) -> Iterator[Bench]:
    server = start_server("7.0")
    try:
        for number in range(queues):
            _fill(server, f"team-{number % 20}/queue-{number}", number)
        with serving(server.url) as served:
            yield Bench(server, served)
    finally:
        server.stop()


def _fill(server: Server, name: str, number: int) -> None:
    """Fill a queue: a third is empty, a third has ready and leased messages, a third dead letters, too."""
    with LeasedQueue(server.url, name, ONE_FAILURE) as queue:
        queue.publish_many([f"message {each}" for each in range(20)])
        for _ in range(5):
            queue.nack(queue.claim()) if number % 3 == 2 else queue.ack(queue.claim())
        if number % 3 == 0:
            queue.ack(queue.claim(max_messages=20))
        else:
            queue.claim(max_messages=5, lease=3600)


def _wait_for_a_scrape(prometheus: Prometheus) -> None:
    while not prometheus.query("scrape_samples_scraped > 1"):
        time.sleep(0.2)


def _value(prometheus: Prometheus, query: str) -> float:
    return float(prometheus.query(query)[0]["value"][1])


def cpu_of(pid: int) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.0f} ms"


if __name__ == "__main__":
    main()
