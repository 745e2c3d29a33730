"""Scenes of a leased queue. A golden file holds the keys that each leaves in Redis."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import timedelta
from typing import Any

from rmq_core import LeasedConfig, LeasedQueue, NewMessage, Overflow, RedisMessageQueue, exponential
from rmq_core.admin import history as recording
from rmq_core.kernel.base import tools_of
from rmq_core.leased import claiming, grouping, inspecting, publishing, reclaiming, settling
from rmq_core.leased.shards import settling as shards
from rmq_core.observe.history import acting_as
from rmq_core.observe.tally import lines_of
from rmq_core.policy import Groups
from rmq_core.redis_message_queue import exchanges
from tests.core.stored.deterministic import begin

LEASES = "rmq:{q}:leases"
HOUR_S = 3600
MINUTE = 29_925_486
PAYLOADS = {
    "text": "zażółć\n",
    "bytes": b"\x00\xff ",
    "dict": {"b": [1, None, True], "a": "ż"},
    "list": [{"n": 1.5}, "x"],
}
HEADERS = {"tenant": "acme", "rmq-later": "kept"}


def queue(url: str, **settings: Any) -> LeasedQueue:
    """The queue `q`; leases of an hour."""
    return LeasedQueue(url, "q", LeasedConfig(**{"lease": HOUR_S, **settings}))


def expire(client: Any, lease_id: str) -> None:
    """Let the deadline of a lease be over."""
    assert client.zadd(LEASES, {lease_id: 1}, xx=True, ch=True) == 1


def messages(url: str, client: Any) -> None:
    """Every kind of payload, ready and delayed."""
    with queue(url) as q:
        q.publish("generated id")
        q.publish_many([NewMessage(payload, id=name) for name, payload in PAYLOADS.items()], headers=HEADERS)
        q.publish_many([NewMessage("due", id="due", delay=2 * HOUR_S)])


def failures(url: str, client: Any) -> None:
    """Histories of failures, alone and together; isolated groups; dead letters, and both logs."""
    with queue(url, max_deliveries=2, completed_log=9, failed_log=9) as q:
        q.publish_many([NewMessage(f"poison{n}", id=f"alone{n}") for n in range(2)])
        q.nack(q.claim(), reason="it broke")
        expire(client, q.claim(owner="worker").id)
        q.nack(q.claim(max_messages=1), delay=HOUR_S, reason="second\tline\nhere")
        q.publish_many([NewMessage("poison2", id="alone2")])
        for _ in range(2):
            q.nack(q.claim(), reason="too")
        q.publish_many([NewMessage("p", id=f"together{n}", headers=HEADERS) for n in range(4)])
        for _ in range(2):
            q.nack(q.claim(max_messages=5, owner="batch"), reason="all of it")
        lease = q.claim(max_messages=5)
        q.nack(lease, [lease.messages[0]], reason="by name")
        q.ack(lease)
        q.publish_many([NewMessage("o", id=f"other{n}") for n in range(3)])
        expire(client, q.claim(max_messages=3, lease_id="batch-7", owner="worker 2").id)
        q.backlog()


def edited(url: str, client: Any) -> None:
    """Dead letters that an operator edited: the payload, the headers, both; one that had failed with others before."""
    with queue(url, max_deliveries=3) as q:
        q.publish_many([NewMessage({"n": n}, id=f"edited{n}", headers=HEADERS) for n in range(3)])
        for _ in range(2):
            q.nack(q.claim(max_messages=3, owner="batch"), reason="all of it")
        while lease := q.claim(owner="worker"):
            q.nack(lease, reason="broken")
        q.admin.edit("edited0", {"n": "zero"}, by="operator")
        q.admin.edit("edited1", headers={})
        q.admin.edit("edited2", "text", {"fixed": "yes"})


def leases(url: str, client: Any) -> None:
    """Leases: anonymous, named, taken over, adopted, settled in part, for ever; a record; a consumer."""
    with queue(url) as q, queue(url, lease=None) as endless:
        q.publish_many([NewMessage(f"m{n}", id=f"m{n}") for n in range(12)])
        q.claim()
        q.claim(max_messages=2, lease_id="taken", owner="first")
        q.claim(max_messages=2, lease_id="taken", owner="second try")
        lease = q.claim(max_messages=4, lease_id="part", owner="worker")
        found = lease.messages
        q.ack(lease, [found[0]])
        q.nack(lease, [found[1]], reason="no")
        endless.claim(lease_id="kept", owner="keeper")
        q.ack(q.claim(max_messages=2, lease_id="done", owner="worker 1"))
        tools_of(q).register_consumer("reader", run="run-1", stream="s1", alive=HOUR_S, finished=3)
        tools_of(q).register_consumer("moved", run="run-1", stream="s1", alive=0.001, finished=5)
        client.hset("rmq:{q}:consumer:moved", "until", 1)
        tools_of(q).register_consumer("moved", run="run-2", stream="s2", alive=HOUR_S)


def _many(url: str, count: int) -> LeasedQueue:
    q = queue(url)
    q.publish_many(NewMessage("x", id="m") for _ in range(count))
    return q


def filling(url: str, client: Any) -> None:
    """A large claim whose client ended after the first chunk."""
    with _many(url, 4010) as q:
        request = claiming.requested(q._engine, 4005, None, "large", "worker")
        begin(q, claiming.grant(q._engine, request, 0), 1)


def nacking(url: str, client: Any) -> None:
    """A nack of a large lease whose client ended after the first chunk."""
    with _many(url, 1005) as q:
        lease = q.claim(max_messages=1005, lease_id="large", owner="worker")
        begin(q, settling.nack(q._engine, lease, reason="no"), 1)


def releasing(url: str, client: Any) -> None:
    """A release of a large lease, of which messages were settled, whose client ended after the first chunk."""
    with _many(url, 4005) as q:
        lease = q.claim(max_messages=4005, lease_id="large", owner="worker")
        q.ack(lease, q.read(lease, 0, 2))
        begin(q, settling.release(q._engine, lease), 1)


def reclaiming_(url: str, client: Any) -> None:
    """An expired lease that a client began to reclaim."""
    with _many(url, 1005) as q:
        lease = q.claim(max_messages=1005, lease_id="large", owner="worker")
        expire(client, lease.id)
        begin(q, reclaiming.reclaim(q._engine, "large"), 1)


def overdue(url: str, client: Any) -> None:
    """A lease that expired in the middle of its release, and that another client began to reclaim."""
    with _many(url, 5010) as q:
        lease = q.claim(max_messages=5010, lease_id="large", owner="worker")
        q.ack(lease, q.read(lease, 0, 2))
        begin(q, settling.release(q._engine, lease), 1)
        expire(client, lease.id)
        begin(q, reclaiming.reclaim(q._engine, "large"), 1)


def sequential(url: str, client: Any) -> None:
    """A lease whose holder works on one message after the other; and one of which a client began to give back."""
    with _many(url, 5005) as q:
        lease = q.claim(max_messages=3, lease_id="held", owner="worker", sequential=True)
        q.ack(lease, [lease.messages[0]])
        q.claim(max_messages=5002, lease_id="crashed", owner="worker", sequential=True)
        expire(client, "crashed")
        begin(q, reclaiming.reclaim(q._engine, "crashed"), 1)


def stages(url: str, client: Any) -> None:
    """A stage; a publication that was committed; and one of which the first of two stages is ready."""
    with queue(url) as q:
        keyed = [NewMessage("k", id="k1", dedup_key="one"), NewMessage("d", id="k2", delay=HOUR_S, headers=HEADERS)]
        q.stage([*keyed, NewMessage("p", id="k3")])
        q.stage([NewMessage("p", id="p1"), NewMessage({"n": 1}, id="p2")])
        for sink, batch in (("committed", 7), ("half", 8)):
            both = [q.stage([*keyed, NewMessage("p", id="k3")]), q.stage([NewMessage(sink, id="p1")])]
            steps = {"committed": 2, "half": 4}[sink]
            begin(q, publishing.publish_staged(q._engine, both, sink=sink, batch=batch), steps)


def deduplicated(url: str, client: Any) -> None:
    """Deduplication keys: of the payload, of the queue's settings, of the call."""
    with queue(url, dedup=True) as q:
        for payload in PAYLOADS.values():
            q.publish(payload)
        assert not q.publish(PAYLOADS["text"]).accepted
        q.publish("x", dedup_key="order 7")
        q.publish("x", dedup_key=b"\x00\x01")


def waiting(url: str, client: Any) -> None:
    """A waiter that holds the timer, a wake token, a requested notification and a pause."""
    with queue(url) as q:
        q.publish_many([NewMessage("due", id="due", delay=HOUR_S)])
        begin(q, claiming.claim(q._engine, wait=HOUR_S), 1)
        q.publish_many([NewMessage("x", id="x")])
        q._driver.run(inspecting.glance(q._engine, 2 * HOUR_S * 1000))
        q.admin.pause()


def slots(url: str, client: Any) -> None:
    """The call slots of two clients: one call after the other, and two chunks in one write."""
    with queue(url) as one, queue(url) as two:
        one.publish_many([NewMessage("a", id="a")])
        one.ack(one.claim())
        two.publish_many([NewMessage("b", id=f"b{n}", delay=HOUR_S * (1 + n // 2)) for n in range(4)])
        two.publish_many([NewMessage("c", id="c", dedup_key="c"), NewMessage("d", id="d", dedup_key="c")])


def message_queue(url: str, client: Any) -> None:
    """A RedisMessageQueue with a name in braces: delivered, redelivered, logged, dead; one has no key."""
    settings: dict[str, Any] = {"visibility_timeout_seconds": HOUR_S, "max_delivery_count": 2, "client": client}
    q = RedisMessageQueue("{orders}", **settings, enable_completed_queue=True, enable_failed_queue=True)
    for payload in ("done", {"b": 1, "a": "ż"}, "fails", "held"):
        assert q.publish(payload)
    for _ in range(2):
        with q.process_message():
            pass
    with suppress(ValueError), q.process_message():
        raise ValueError("no")
    channel = q._state.gateway._state.find("{orders}::pending")[0]
    for _ in range(2):
        lease = begin_claim(channel)
        assert client.zadd("rmq:{%7Borders%7D}:leases", {lease: 1}, xx=True, ch=True) == 1
    other = RedisMessageQueue("{orders}", client=client, deduplication=False, visibility_timeout_seconds=HOUR_S)
    other.publish("again")
    begin_claim(channel)


def begin_claim(channel: Any) -> str:
    """Claim a message and let the consumer end; the id of its lease."""
    grant = channel.driver.run(exchanges.claim(channel.engine, 0), None)
    assert grant is not None
    return str(grant.lease.id)


def history(url: str, client: Any) -> None:
    """A minute, an hour, the totals and marks, of two flushes; the minute is of the past, without the last claim."""
    key = "rmq:{q}:history"
    flushes = (
        ("p+3 c+3 w0+2 w5+1 ws+300 wx^250", ["pause\talice\t"]),
        ("c+1 a+2 d+1 w0+1 ws+4 wx^4 s22+3 ss+9 sx^3", []),
    )
    with queue(url, history=False) as q:
        for number, (sums, marks) in enumerate(flushes):
            exchange = recording.flushing(q._engine, "client", number, sums, marks)
            q._driver.run(only(exchange))
    for unit, number, ring in (("m", MINUTE, 1440), ("h", MINUTE // 60, 720)):
        (place,) = (name for name in client.hkeys(key) if name.startswith(unit.encode()) and name != b"marks")
        value = re.sub(rb" c=\d+", b"", client.hget(key, place).split(b" ", 1)[1])
        client.hdel(key, place)
        client.hset(key, f"{unit}{number % ring}", b"%d %b" % (number, value))


def settings(url: str, client: Any) -> None:
    """A value of each form, and a program that passes another one."""
    with acting_as("alice"), queue(url, history=False) as q:
        q.admin.configure(
            max_deliveries=3, max_ready=9, overflow=Overflow.BLOCK(2.5), backoff=exponential(1, 60, 0.25), dedup=True,
            max_hold=None, journal=timedelta(days=1),
        )  # fmt: skip
    with acting_as("bob"), queue(url, history=False, max_deliveries=5) as q:
        q.stats()


def journal(url: str, client: Any) -> None:
    """The journal of messages that were published, claimed, taken over, settled, expired, dead and redriven."""
    with acting_as("alice"), queue(url, history=False, journal=100, max_deliveries=4) as q:
        q.publish_many([NewMessage(f"m{n}", id=f"m{n}") for n in range(2)])
        q.publish_many(["a", "b"])
        q.claim(max_messages=3, lease_id="job", owner="host 1")
        lease = q.claim(lease_id="job", owner="host 2")
        q.ack(lease, [lease.messages[0]])
        q.nack(lease, reason="it broke")
        expire(client, q.claim(owner="host 3").id)
        q.backlog()
        q.release(q.claim())
    with acting_as("alice"), queue(url, history=False, journal=100, max_deliveries=1) as q:
        q.nack(q.claim(), reason="again")
        q.admin.redrive()


def operated(url: str, client: Any) -> None:
    """The journal of what operators did to single messages: with a journal of their own, and through their marks."""
    with acting_as("alice"), queue(url, history=False, journal=100, max_deliveries=1) as q:
        q.publish_many([NewMessage(f"m-{n}", id=f"m-{n}") for n in range(5)])
        q.nack(q.claim(max_messages=3))
        q.admin.edit("m-0", "z", by="bob")
        q.admin.discard(["m-1", "m-2"])
    lines = "\n".join(["cancel\talice\t2 messages", *lines_of("cancelled", ["m-3", "m-4"], n=2, by="alice", r="")])
    with queue(url, history=False) as q:
        q._driver.run(only(recording.flushing(q._engine, "client", 1, "", [lines])))


def only(call: Any) -> Any:
    """An operation of one request."""
    yield call


def grouped_exclusive(url: str, client: Any) -> None:
    """One lease for each group: one is held, one rests after a failure, one can be claimed; one message is delayed."""
    with queue(url) as q:
        q.admin.configure(groups='exclusive {"gold": 5, "ż": 0.5}')
        for name in ("gold", "ż", "lead"):
            q.publish_many([NewMessage(f"{name}{n}", id=f"{name}{n}", group=name) for n in range(3)], headers=HEADERS)
        q.publish_many([NewMessage("alone", id="alone"), NewMessage("due", id="due", delay=HOUR_S, group="lead")])
        first, second = q.claim(max_messages=2, groups=["gold"], lease_id="job"), q.claim(groups=["ż"])
        q.nack(second, delay=HOUR_S, reason="it broke")
        q.ack(first, [first.messages[0]])


def grouped_fair(url: str, client: Any) -> None:
    """Any number of leases for each group: priorities, and isolated messages beside others of their group."""
    with queue(url) as q:
        q.admin.configure(groups="fair")
        q.publish_many([NewMessage(f"together{n}", id=f"together{n}", group="a") for n in range(4)])
        for _ in range(2):
            q.nack(q.claim(max_messages=4), reason="all of it")
        q.publish_many([NewMessage(f"b{n}", id=f"b{n}", group="b", priority=n) for n in range(2)])
        q.publish_many([NewMessage("after", id="after", group="a"), NewMessage("none", id="none")])
        q.claim(groups=["b"])


def grouped_later(url: str, client: Any) -> None:
    """A queue that got a limit while leases were held, and messages that are on their way to their groups."""
    with queue(url) as q:
        q.publish_many([NewMessage(f"m{n}", id=f"m{n}", group="a") for n in range(3)])
        q.claim(lease_id="before")
        begin(q, grouping.set_groups(q._engine, Groups(2)), 2)


def sharded(url: str, client: Any) -> None:
    """A lease in parts, one whose ack is decided while no part is acked, and a shard that only has messages claimed."""
    with queue(url) as q:
        q.admin.configure(shards=3)
        q.publish_many([NewMessage(f"m{n}", id=f"m{n}", dedup_key=f"k{n}") for n in range(16)], headers=HEADERS)
        q.publish_many([NewMessage("due", id="due", dedup_key="due", delay=HOUR_S)])
        decided = q.claim(max_messages=9, lease_id="decided", owner="host 1")
        q.claim(max_messages=5, lease_id="job", owner="host 2")
        begin(q, shards.ack(q._engine, decided), 2)
        q.admin.configure(shards=2)


SCENES = {
    "sharded": sharded,
    "grouped_exclusive": grouped_exclusive,
    "grouped_fair": grouped_fair,
    "grouped_later": grouped_later,
    "leased_messages": messages,
    "leased_failures": failures,
    "leased_edited": edited,
    "leased_leases": leases,
    "leased_filling": filling,
    "leased_nacking": nacking,
    "leased_releasing": releasing,
    "leased_reclaiming": reclaiming_,
    "leased_overdue": overdue,
    "leased_sequential": sequential,
    "leased_stages": stages,
    "leased_deduplicated": deduplicated,
    "leased_waiting": waiting,
    "leased_slots": slots,
    "leased_history": history,
    "leased_journal": journal,
    "leased_settings": settings,
    "leased_operated": operated,
    "message_queue": message_queue,
}
