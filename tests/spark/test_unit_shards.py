"""The shard of a message, the names of shards and their leases, and the outcome of a claim that fails."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType
from redis.crc import key_slot

from rmq_core import ConfigurationError, Lease, NewMessage, QueueUnavailable
from rmq_core.reports import SettleReport
from rmq_spark.batch.held import claim_shards
from rmq_spark.data_source import CLAIM
from rmq_spark.place.options import OptionValues
from rmq_spark.place.shards import Router, shard_names
from rmq_spark.place.source import Source
from rmq_spark.read.browse import BROWSE
from rmq_spark.stream.options import STREAM
from rmq_spark.write.sink import sink_of, writer_of
from rmq_spark.write.stream import stream_writer_of

PLACE = {"url": "redis://localhost", "queue": "orders", "shards": "4"}
SCHEMA = StructType([StructField("payload", StringType())])


class Queue:
    """A shard with so many messages, which records its calls."""

    def __init__(self, ready: int, *, left: int = 0, acked: int = 0, down: bool = False) -> None:
        self.ready, self.left, self.acked, self.down = ready, left, acked, down
        self.said: list[tuple[str, Any]] = []

    def lease_info(self, lease_id: str) -> Any:
        held = self.left or (f"claim {self.ready}", lease_id) in self.said
        return SimpleNamespace(id=lease_id, claimed_at=datetime.fromtimestamp(5, UTC)) if held else None

    def settled(self, lease_id: str) -> Any:
        return SimpleNamespace(acked=self.acked) if self.acked else None

    def claim(self, *, max_messages: int, lease_id: str | None) -> Lease | None:
        if self.down:
            raise QueueUnavailable("Redis did not answer")
        self.said.append((f"claim {max_messages}", lease_id))
        count = self.left or min(self.ready, max_messages)
        return Lease("q", lease_id or "made up", "", count, None, "7.token") if count else None

    def adopt(self, lease_id: str) -> Lease:
        return Lease("q", lease_id, "", self.left, None, "8.token")

    def ack(self, lease: Lease) -> Any:
        self.said.append(("ack", lease.id))
        return SimpleNamespace(settled=lease.count)

    def release(self, lease: Lease) -> SettleReport:
        self.said.append(("release", lease.id))
        return SettleReport(lease.count)


def claimed(*queues: Queue, **claim: Any) -> list[tuple[str, int]]:
    held = claim_shards(queues, **{"max_messages": 12, "lease_id": "run"} | claim)  # type: ignore[arg-type]
    return [(each.lease.id, each.lease.count) for each in held]


def test_shards_are_queues_with_the_same_names_in_every_process_and_release() -> None:
    assert shard_names("orders", 3) == ["orders/s0-1", "orders/s1-50", "orders/s2-0"]


@pytest.mark.parametrize(("shards", "nodes", "most"), [(3, 3, 1), (6, 3, 2), (8, 3, 3), (10, 5, 2), (12, 6, 2)])
def test_each_node_of_a_cluster_has_its_part_of_the_shards(shards: int, nodes: int, most: int) -> None:
    for number in range(100):
        names = shard_names(f"queue {number}", shards)
        found = Counter(key_slot(name.encode()) * nodes // 16_384 for name in names)
        assert max(found.values()) == most, names


@pytest.mark.parametrize("shards", [0, -1, 1025, 2.0, "4", None])
def test_the_number_of_shards_is_validated(shards: Any) -> None:
    with pytest.raises(ConfigurationError, match="shards must be a whole number from 1 to 1,024"):
        shard_names("orders", shards)


def test_a_key_goes_to_the_same_shard_in_every_process_and_release() -> None:
    keys: list[str | bytes] = ["a", "b", "customer 1", "customer 2", "ü", b"a"]
    routers = Router(4), Router(4, first=3)
    found = [[router.shard_of(NewMessage("x", dedup_key=key)) for key in keys] for router in routers]
    assert found == [[3, 1, 0, 2, 1, 3]] * 2


def test_many_keys_are_distributed_evenly() -> None:
    router = Router(4)
    found = Counter(router.shard_of(NewMessage("x", dedup_key=f"key {number}")) for number in range(4000))
    assert all(abs(count - 1000) < 150 for count in found.values())


def test_messages_without_a_key_are_distributed_round_robin_in_order() -> None:
    messages = ["a", {"b": 1}, NewMessage("c"), NewMessage("d", dedup_key="a"), "e"]
    assert Router(4, first=6).sorted(messages) == {2: ["a"], 3: [{"b": 1}, messages[3]], 0: [messages[2]], 1: ["e"]}


def test_each_shard_has_a_lease_named_after_the_batch() -> None:
    assert claimed(Queue(100), Queue(0), Queue(100)) == [("run/s0", 4), ("run/s2", 8)]


def test_a_batch_of_shards_does_not_wait() -> None:
    with pytest.raises(ConfigurationError, match="a batch of shards cannot wait"):
        claimed(Queue(1), wait=1)


def test_a_sink_that_publishes_at_once_may_have_shards() -> None:
    assert sink_of(PLACE | {"delivery": "direct"}, SCHEMA).shards == 4
    assert stream_writer_of(PLACE | {"delivery": "direct"}, SCHEMA, overwrite=False)._sink.shards == 4


@pytest.mark.parametrize(
    "make",
    [
        lambda: writer_of(PLACE, SCHEMA, overwrite=False),
        lambda: Source.of(OptionValues(PLACE | {"lease": "a", "token": "1.a"}, CLAIM)),
        lambda: Source.of(OptionValues(PLACE, BROWSE)),
        lambda: Source.of(OptionValues(PLACE | {"consumer": "c"}, STREAM)),
    ],
    ids=["staged", "claim", "browse", "stream"],
)
def test_an_option_that_cannot_have_shards_is_refused_with_an_example_of_a_shard(make: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"option shards: .* such as 'orders/s0-51', .*shard_names\('orders', 4\)"
    ):
        make()
