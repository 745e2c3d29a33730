"""The benchmarks run on the present code: each is tried with the smallest numbers, and its figures are not judged."""

from __future__ import annotations

import os
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
import redis

from benchmarks import async_batches, async_loops, batches, chunks, columns, groups, loops, replay
from benchmarks.batches import BATCH
from benchmarks.figures import Findings
from benchmarks.inflight import SHOWN
from rmq_core.exchange import loading
from tests.servers import start_server

TINY: dict[str, Callable[[int], Findings]] = {
    "loops": lambda port: loops.measure(port, 1),
    "async_loops": lambda port: async_loops.measure(port, 1),
    "batches": lambda port: batches.measure(port, 1),
    "async_batches": lambda port: async_batches.measure(port, 1),
    "columns": lambda port: columns.measure(port, 1, 2_000),
    "groups": lambda port: groups.measure(port, os.getpid(), 1),  # of this process instead of the server
}


@pytest.mark.parametrize("name", TINY)
def test_a_benchmark_measures_figures_above_zero(name: str, redis_url: str) -> None:
    found = TINY[name](urlsplit(redis_url).port or 0)
    assert found.figures
    assert all(figure.spread.median > 0 for figure in found.figures)


def test_the_slowest_script_of_a_large_lease_has_a_name() -> None:
    server = start_server("7.0")  # a server of its own, because this benchmark changes the server's settings
    try:
        found = chunks.measure(server.port, min(size for size in SHOWN if size > BATCH))
    finally:
        server.stop()
    scripts = {row[0].strip("`") for table in found.tables for row in table.rows}
    assert {"publish", "claim", "reclaim"} <= scripts
    assert scripts <= {*chunks.NAMES, "other"}


def test_a_publish_without_its_slot_runs_and_the_script_with_it_returns(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        rows = replay.measured(client, redis_url, rounds=1, calls=20)
    assert set(rows) == {"LPUSH", "EVALSHA of `return 1`", "publish", "publish without the slot"}
    assert "redis.call('SET', slot" in loading.load("leased/publish").source.decode()
