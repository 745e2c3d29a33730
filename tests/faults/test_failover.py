"""A lagging replica is promoted: writes it never received did not happen, and no client may be told otherwise.

Redis acknowledges before it replicates, so a failover loses the newest writes. Evidence (the call slot, the
lease, its token) is lost together with them: a settle then raises LeaseLost, and never guesses a success.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from rmq_core import Durability, LeasedConfig, LeaseLost, MessageRef
from rmq_core.errors import NotDurable
from tests.core.worlds import AsyncWorld, SyncWorld, World
from tests.faults import tally
from tests.faults.holders import check_nothing_is_left
from tests.faults.patience import PATIENCE_S, eventually
from tests.faults.proxy import Fault, Proxy
from tests.servers import Server, start_server

DURABLE = LeasedConfig(durability=Durability(replicas=1, timeout=0.2))
PATIENT = LeasedConfig(durability=Durability(replicas=1, timeout=PATIENCE_S))
NOBODY = 1  # a port on which no Redis listens


@dataclass
class Pair:
    """A primary, its replica, and the proxy that leads clients to the server in charge."""

    primary: Server
    replica: Server
    wire: Proxy

    def link(self) -> None:
        """Start replication, and wait until the replica has everything."""
        with self.primary.client() as primary, self.replica.client() as replica:
            primary.replicaof("NO", "ONE")
            primary.flushall()
            primary.config_set("repl-diskless-sync-delay", 0)
            replica.replicaof("127.0.0.1", str(self.primary.port))
            self.wire.point(self.primary.port)
        self.catch_up()

    def catch_up(self) -> None:
        """Wait until the replica has what the primary has."""
        with self.primary.client() as primary, self.replica.client() as replica:
            eventually(lambda: replica.info("replication")["master_link_status"] == "up")
            eventually(lambda: primary.wait(1, 100) == 1)  # the primary reports it as online
            eventually(lambda: _offset(primary) == _offset(replica))

    def cut(self) -> None:
        """Stop replication: the replica receives nothing more."""
        self.catch_up()
        with self.replica.client() as replica:
            replica.replicaof("127.0.0.1", str(NOBODY))

    def promote(self) -> None:
        """Abandon the primary and promote the replica in its present state."""
        tally.count("lagging replica promoted")
        with self.replica.client() as replica:
            replica.replicaof("NO", "ONE")
        self.wire.point(self.replica.port)

    def demote(self) -> None:
        """Bring the old primary back as the replica of the new one."""
        with self.primary.client() as primary, self.replica.client() as replica:
            replica.config_set("repl-diskless-sync-delay", 0)
            primary.replicaof("127.0.0.1", str(self.replica.port))


def _offset(client: redis.Redis) -> int:
    info = client.info("replication")
    return int(info["master_repl_offset"] if info["role"] == "master" else info["slave_repl_offset"])


@pytest.fixture(scope="module")
def servers(own_server: Server) -> Iterator[Pair]:
    replica = start_server(own_server.name)
    with Proxy(own_server.port) as wire:
        yield Pair(own_server, replica, wire)
    replica.stop()


@pytest.fixture
def pair(servers: Pair) -> Pair:
    servers.link()
    return servers


@pytest.fixture(params=[SyncWorld, AsyncWorld], ids=["sync", "async"])
def there(request: pytest.FixtureRequest, pair: Pair) -> Iterator[World]:
    """Queues that reach the server in charge; `client` reads from the replica."""
    with pair.replica.client() as client, request.param(pair.wire.url, client) as made:
        yield made


def lose_the_reply_in_a_failover(pair: Pair, call: Callable[[], Any]) -> Any:
    """Run the call on the primary, which dies before it answers; the call is resent to the replica."""
    pair.wire.cut(Fault.REPLY_LOST, meanwhile=pair.promote)
    try:
        return call()
    finally:
        assert pair.wire.hit


def test_an_ack_unknown_to_the_replica_takes_effect_there_before_it_is_reported(pair: Pair, there: World) -> None:
    queue = there.queue()
    queue.publish("x")
    lease = queue.claim()
    pair.cut()
    assert lose_the_reply_in_a_failover(pair, lambda: queue.ack(lease)).settled == 1
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)
    with pytest.raises(LeaseLost):
        queue.ack(lease)


def test_an_ack_of_a_lease_unknown_to_the_replica_is_reported_as_lost(pair: Pair, there: World) -> None:
    queue = there.queue()
    queue.publish("x")
    pair.cut()
    lease = queue.claim(lease_id="job")
    with pytest.raises(LeaseLost):
        lose_the_reply_in_a_failover(pair, lambda: queue.ack(lease))
    again = queue.claim(lease_id="job")
    assert again.message.payload == "x"
    assert queue.settled("job") is None


def test_a_token_from_before_the_failover_is_invalid_when_its_number_is_reused(pair: Pair, there: World) -> None:
    queue = there.queue()
    queue.publish_many(["x", "y"])
    pair.cut()
    old = queue.claim(lease_id="job", max_messages=2)
    pair.promote()
    new = queue.claim(lease_id="job", max_messages=2)
    assert old.token.split(".")[0] == new.token.split(".")[0]
    assert old.token != new.token
    for settle in (queue.ack, queue.nack, queue.release, queue.extend, queue.read):
        with pytest.raises(LeaseLost):
            settle(old)
    with pytest.raises(LeaseLost):
        queue.claim_next(ack=old)
    assert {*queue.ack(old, [MessageRef("job", 0, "")]).outcomes} == {"lost"}
    assert queue.ack(new).settled == 2


def test_a_claim_whose_reply_was_lost_in_the_failover_is_made_again(pair: Pair, there: World) -> None:
    queue = there.queue()
    queue.publish_many(["x", "y"])
    pair.cut()
    lease = lose_the_reply_in_a_failover(pair, queue.claim)
    assert lease.message.payload == "x"
    assert queue.stats()[:4] == (1, 0, 1, 1)
    assert queue.ack(lease).settled == 1


def test_what_only_the_old_primary_knew_of_groups_is_taken_back_as_a_whole(pair: Pair, there: World) -> None:
    """Holders, tokens of a rate, taken keys and counts of a publication get lost with the writes that they count."""
    queue = there.queue()
    queue.admin.configure(groups="exclusive", dedup_until="settled", group_rate="1/1h burst 3")
    queue.publish_many(["a", "b", "c", "d"], group="g", publication="p")
    queue.publish("u", group="u", dedup_key="u", publication="p")
    queue.ack(queue.claim())
    pair.cut()
    held, unique = sorted((queue.claim(), queue.claim()), key=lambda lease: lease.groups)
    assert queue.ack(unique).settled == 1
    assert queue.publish("u", group="u", dedup_key="u").accepted
    pair.promote()
    with pytest.raises(LeaseLost):
        queue.ack(held)
    assert queue.publication("p")[1:7] == (5, 4, 0, 1, 0, 0)
    assert not queue.publish("u", group="u", dedup_key="u").accepted
    again = [queue.claim(), queue.claim()]
    assert {lease.message.payload for lease in again} == {"b", "u"}, "in order, from the group that nobody holds now"
    assert queue.claim() is None
    for lease in again:
        queue.ack(lease)
    assert queue.ack(queue.claim()).settled == 1
    assert queue.claim() is None, "the rate counts all claims that the replica knew, and those after them"
    assert queue.publication("p")[1:7] == (5, 1, 0, 4, 0, 0)
    queue.admin.configure(group_rate=None)
    assert queue.ack(queue.claim()).settled == 1
    assert queue.publication("p").done
    check_nothing_is_left(there.client, queue)


@pytest.mark.parametrize("heard", [True, False], ids=["replicated", "lost"])
def test_a_publish_whose_reply_was_lost_in_the_failover_is_stored_once(
    pair: Pair, there: World, *, heard: bool
) -> None:
    queue = there.queue()
    queue.publish("first")
    if heard:
        pair.wire.cut(Fault.REPLY_LOST, meanwhile=lambda: (pair.catch_up(), pair.promote()))
        assert queue.publish("x").accepted
    else:
        pair.cut()
        assert lose_the_reply_in_a_failover(pair, lambda: queue.publish("x")).accepted
    assert [message.payload for message in queue.admin.peek(9)] == ["first", "x"]


def test_calls_that_reach_the_replica_before_its_promotion_wait_for_it(pair: Pair, there: World) -> None:
    queue = there.queue()
    queue.publish("x")
    lease = queue.claim()
    pair.cut()
    pair.wire.point(pair.replica.port)
    acked, published = there.in_background(queue.ack, lease), there.in_background(queue.publish, "y")
    eventually(lambda: len(pair.wire.commands) > 6)
    assert not acked.done()
    pair.promote()
    assert acked.result(PATIENCE_S).settled == 1
    assert published.result(PATIENCE_S).accepted
    assert queue.stats()[:5] == (1, 0, 0, 0, 0)


def test_durable_publishes_and_acks_are_confirmed_or_reported_as_unconfirmed(pair: Pair, there: World) -> None:
    queue, patient = there.queue(config=DURABLE), there.queue(config=PATIENT)
    patient.publish_many(["a", "b", "c", "d"])
    first, second = patient.claim(max_messages=2), patient.claim(max_messages=2)
    patient.ack(first)
    patient.publish("e")
    pair.cut()
    for call in (
        lambda: queue.publish("f"),
        lambda: queue.ack(second, [second.messages[0]]),
        lambda: queue.claim_next(ack=second),
    ):
        with pytest.raises(NotDurable):
            call()
    pair.promote()
    assert [message.payload for message in queue.admin.peek(9)] == ["e"]
    assert [message.payload for message in queue.read(second)] == ["c", "d"]


def test_under_load_no_durably_acked_message_comes_back_and_no_token_is_issued_twice(pair: Pair, there: World) -> None:
    queue, acked, unsafe, tokens = there.queue(config=DURABLE), Counter[str](), Counter[str](), []
    sent = [str(number) for number in range(600)]
    alone, served = threading.Event(), threading.Event()

    def work() -> None:
        while (lease := queue.claim(max_messages=3, wait=1)) is not None:
            tokens.append(lease.token)
            if len(tokens) > 60:  # what follows reaches the primary alone
                alone.wait(PATIENCE_S)
            if len(unsafe) > 60:  # and what follows then reaches the promoted replica
                served.wait(PATIENCE_S)
            payloads = [message.payload for message in lease.messages]
            assert not set(payloads) & set(acked)
            try:
                queue.ack(lease)
            except (NotDurable, LeaseLost):
                unsafe.update(payloads)  # they were reported as unsafe, and may return
            else:
                acked.update(payloads)

    there.queue(config=PATIENT).publish_many(sent)
    workers = [there.in_background(work) for _ in range(4)]
    eventually(lambda: len(tokens) > 40)
    pair.cut()
    alone.set()
    eventually(lambda: len(unsafe) > 12)
    pair.promote()
    pair.demote()
    served.set()
    for worker in workers:
        worker.result(PATIENCE_S)
    assert len(tokens) == len(set(tokens))
    assert max(acked.values()) == 1
    assert {*acked, *unsafe} == set(sent)
    left = queue.stats()  # an ack that only the old primary received leaves its lease until it expires
    assert (left.ready, left.delayed, left.dead) == (0, 0, 0)
    assert left.leased <= len(unsafe)
