"""The native operations on a cluster; the conformance suite tests those of WorkQueue."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

import rmq_core
import rmq_core.asyncio
from rmq_core.streams import QueueConfig
from tests.servers import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with contextlib.closing(Cluster("7.0")) as made:
        yield made


@pytest.mark.parametrize("key", ["plain", "tagged:{t}", "rmq:{q}:stream"])
def test_a_consumer_reads_claims_and_acknowledges_on_a_cluster(cluster: Cluster, key: str) -> None:
    first, second = (QueueConfig(key, "g", name, block_ms=50) for name in "ab")
    with rmq_core.StreamQueue(cluster.url, first) as queue, rmq_core.QueueConsumer(cluster.url, second) as consumer:
        queue.enqueue({"n": 1})
        (message,) = queue.read()
        assert consumer.next() is None
        time.sleep(0.03)
        assert consumer.claim_stale(20) == [message]
        consumer.ack(message)
        assert queue.backlog_stats()[:3] == (1, 0, 0)
