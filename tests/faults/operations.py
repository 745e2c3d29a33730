"""Every call of a queue that changes something, with its preparation: the lost-reply tests run all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import redis

from rmq_core import Durability, Lease, LeasedConfig, Message, MessageRef, Overflow
from rmq_core.policy import Breaker

LARGE = 8001  # three chunks of claim
BACK = 2001  # three chunks of nack and reclaim
HALF = 4100  # two of release
MANY = 4001  # five chunks of publish_many, in two writes
Act = Callable[[Any, Any], Any]


def nothing(queue: Any, client: redis.Redis) -> Any:
    """Prepare nothing."""
    del queue, client


@dataclass(frozen=True)
class Operation:
    """`act` gets a queue on the proxy and the result of `prepare`, which used an undisturbed connection."""

    name: str
    act: Act
    prepare: Act = nothing
    config: LeasedConfig = field(default_factory=LeasedConfig)
    groups: str | None = None
    """How the messages wait in groups from the start."""


def published(count: int, **more: Any) -> Act:
    """Make `count` messages ready."""
    return lambda queue, _: queue.publish_many([f"m{n}" for n in range(count)], **more)


def claimed(count: int, **more: Any) -> Act:
    """Claim `count` messages and leave three more ready; return the lease."""

    def prepare(queue: Any, _: redis.Redis) -> Lease:
        queue.publish_many([f"m{n}" for n in range(count + 3)])
        lease: Lease = queue.claim(max_messages=count, **more)
        assert lease.count == count
        return lease

    return prepare


def expired(count: int, **more: Any) -> Act:
    """Do the same, and let the lease expire."""

    def prepare(queue: Any, client: redis.Redis) -> Lease:
        lease = claimed(count, **more)(queue, client)
        client.zadd(f"rmq:{{{queue.name}}}:leases", {lease.id: 1})
        return lease

    return prepare


def partly_acked(queue: Any, client: redis.Redis) -> Lease:
    """Claim five messages and ack two of them."""
    lease: Lease = claimed(5, lease_id="job")(queue, client)
    queue.ack(lease, refs(lease, 1, 3))
    return lease


def settled(queue: Any, client: redis.Redis) -> Lease:
    """Return a lease whose messages are all acked."""
    lease: Lease = claimed(2, lease_id="job")(queue, client)
    queue.ack(lease)
    return lease


def dead(count: int) -> Act:
    """Make `count` dead letters and three ready messages."""

    def prepare(queue: Any, client: redis.Redis) -> None:
        assert queue.nack(claimed(count)(queue, client)).dead == count

    return prepare


def delayed(queue: Any, client: redis.Redis) -> list[str]:
    """Publish three delayed messages, two of them due; return their ids."""
    report = queue.publish_many(["a", "b", "c"], delay=1000)
    key = f"rmq:{{{queue.name}}}:delayed"
    for place, envelope in enumerate(sorted(client.zrange(key, 0, -1))[:2]):
        client.zadd(key, {envelope: place + 1})
    return list(report.ids)


def ids(queue: Any, client: redis.Redis) -> list[str]:
    """Publish three messages; return their ids."""
    del client
    return list(queue.publish_many(["a", "b", "c"]).ids)


def duplicate(queue: Any, _: redis.Redis) -> None:
    """Publish messages with some deduplication keys."""
    queue.publish_many([f"m{n}" for n in range(0, MANY, 7)], dedup_key=str)


def paused(queue: Any, client: redis.Redis) -> None:
    """Publish three messages to a paused queue."""
    ids(queue, client)
    queue.admin.pause()


def mixed(queue: Any, _: redis.Redis) -> None:
    """Publish messages of three groups, and some without one."""
    for group, count in (("a", 3), ("b", 70), (None, 2), ("c", 100)):
        queue.publish_many([f"{group}{n}" for n in range(count)], group=group)


def held(queue: Any, client: redis.Redis) -> Lease:
    """Claim some of these messages."""
    mixed(queue, client)
    lease: Lease = queue.claim(max_messages=10)
    return lease


def counted(queue: Any, _: redis.Redis) -> Lease:
    """Claim messages of a publication, some of which were acked before."""
    queue.publish_many([f"m{n}" for n in range(30)], publication="p", group="a")
    lease: Lease = queue.claim(max_messages=20)
    queue.ack(lease, refs(lease, 3, 5))
    return lease


def late(queue: Any, client: redis.Redis) -> None:
    """Do the same, and let the lease expire."""
    client.zadd(f"rmq:{{{queue.name}}}:leases", {held(queue, client).id: 1})


def over(count: int) -> Act:
    """Publish messages to two groups, and let `count` of them expire."""

    def prepare(queue: Any, client: redis.Redis) -> None:
        for group in ("a", None):
            queue.publish_many(["x"] * (count // 2), group=group, expires=60)
            queue.publish_many(["y", "z"], group=group)
        key = f"rmq:{{{queue.name}}}:expiring"
        client.zadd(key, dict.fromkeys(client.zrange(key, 0, -1), 1))

    return prepare


def unclaimed(queue: Any, client: redis.Redis) -> None:
    """Do the same, so that they are dead letters."""
    over(3)(queue, client)
    assert queue.backlog().ready == 4


def refs(lease: Lease, *indexes: int) -> list[MessageRef]:
    """Return messages of a lease by their positions."""
    return [MessageRef(lease.id, index, "") for index in indexes]


def processed(queue: Any, _: Any) -> list[Message]:
    """Process the messages of a lease."""
    with queue.process(max_messages=2) as batch:
        return list(batch)


ONCE = LeasedConfig(max_deliveries=1)
FRAGILE = LeasedConfig(max_deliveries=1, pause_after_dead=Breaker(2, 600))
FULL = LeasedConfig(max_ready=1500)
OPERATIONS = (
    Operation("publish", lambda queue, _: queue.publish("x", headers={"a": "b"})),
    Operation("publish deduplicated", lambda queue, _: queue.publish("x", dedup_key="k")),
    Operation("publish a duplicate", lambda queue, _: queue.publish("m7", dedup_key="m7"), duplicate),
    Operation("publish delayed", lambda queue, _: queue.publish("x", delay=1000)),
    Operation(
        "publish durably", lambda queue, _: queue.publish("x"), config=LeasedConfig(durability=Durability(replicas=0))
    ),
    Operation("publish to a full queue", lambda queue, _: queue.publish("x"), published(1500), FULL),
    Operation(
        "publish and drop the oldest",
        lambda queue, _: queue.publish("x"),
        published(3),
        LeasedConfig(max_ready=3, overflow=Overflow.DROP_OLDEST),
    ),
    Operation("publish many", lambda queue, _: queue.publish_many([f"m{n}" for n in range(30)])),
    Operation(
        "publish staged chunks",
        lambda queue, _: queue.publish_staged([queue.stage([f"m{n}" for n in range(MANY)])]),
    ),
    Operation("publish chunks", lambda queue, _: queue.publish_many([f"m{n}" for n in range(MANY)])),
    Operation("publish a column", lambda queue, _: queue.publish_many(pa.array([f"m{n}" for n in range(2 * MANY)]))),
    Operation(
        "publish deduplicated chunks",
        lambda queue, _: queue.publish_many([f"m{n}" for n in range(MANY)], dedup_key=str),
        duplicate,
    ),
    Operation(
        "publish delayed chunks",
        lambda queue, _: queue.publish_many([f"m{n}" for n in range(MANY)], delay=1000),
    ),
    Operation(
        "publish more chunks than there is room for",
        lambda queue, _: queue.publish_many([f"m{n}" for n in range(MANY)]),
        config=LeasedConfig(max_ready=2400),
    ),
    Operation("claim one", lambda queue, _: queue.claim(), published(3)),
    Operation("claim some", lambda queue, _: queue.claim(max_messages=10, owner="me"), published(15)),
    Operation("claim many", lambda queue, _: queue.claim(max_messages=150), published(200)),
    Operation("claim many at most", lambda queue, _: queue.claim(max_messages=200), published(150)),
    Operation("claim many by id", lambda queue, _: queue.claim(max_messages=150, lease_id="job"), published(200)),
    Operation("claim for ever", lambda queue, _: queue.claim(max_messages=2), published(3), LeasedConfig(lease=None)),
    Operation("claim chunks", lambda queue, _: queue.claim(max_messages=LARGE), published(LARGE + 1)),
    Operation("claim everything", lambda queue, _: queue.claim(max_messages=LARGE), published(LARGE)),
    Operation("claim nothing", lambda queue, _: queue.claim(), config=LeasedConfig()),
    Operation("claim what is due", lambda queue, _: queue.claim(max_messages=9), delayed),
    Operation("claim by id", lambda queue, _: queue.claim(max_messages=2, lease_id="job", owner="try 1"), published(3)),
    Operation(
        "take over", lambda queue, _: queue.claim(lease_id="job", owner="try 2"), claimed(3, lease_id="job", owner="a")
    ),
    Operation("take over what expired", lambda queue, _: queue.claim(lease_id="job"), expired(3, lease_id="job")),
    Operation("take over too often", lambda queue, _: queue.claim(lease_id="job"), claimed(3, lease_id="job"), ONCE),
    Operation("claim what is settled", lambda queue, _: queue.claim(lease_id="job"), settled),
    Operation("claim next", lambda queue, lease: queue.claim_next(ack=lease), claimed(1)),
    Operation("claim the next some", lambda queue, lease: queue.claim_next(ack=lease, max_messages=3), claimed(4)),
    Operation("claim the next many", lambda queue, lease: queue.claim_next(ack=lease, max_messages=150), claimed(150)),
    Operation("claim no next", lambda queue, lease: queue.claim_next(ack=lease), lambda queue, _: _only(queue)),
    Operation("adopt", lambda queue, _: queue.adopt("job"), claimed(3, lease_id="job", owner="a")),
    Operation(
        "adopt for oneself",
        lambda queue, _: queue.adopt("job", owner="b", if_owner="a"),
        claimed(3, lease_id="job", owner="a"),
    ),
    Operation(
        "adopt another's", lambda queue, _: queue.adopt("job", if_owner="b"), claimed(3, lease_id="job", owner="a")
    ),
    Operation("adopt what is gone", lambda queue, _: queue.adopt("job")),
    Operation("extend", lambda queue, lease: queue.extend(lease, 600), claimed(3)),
    Operation("ack", lambda queue, lease: queue.ack(lease), claimed(3, lease_id="job"), LeasedConfig(completed_log=9)),
    Operation("ack a large lease", lambda queue, lease: queue.ack(lease), claimed(HALF)),
    Operation("ack the rest", lambda queue, lease: queue.ack(lease), partly_acked),
    Operation("ack some", lambda queue, lease: queue.ack(lease, refs(lease, 0, 2)), claimed(3)),
    Operation("ack the last some", lambda queue, lease: queue.ack(lease, refs(lease, 0, 2, 4)), partly_acked),
    Operation("nack", lambda queue, lease: queue.nack(lease, reason="no"), claimed(3), LeasedConfig(failed_log=9)),
    Operation("nack for later", lambda queue, lease: queue.nack(lease, delay=1000), claimed(3)),
    Operation("nack to the dead letters", lambda queue, lease: queue.nack(lease), claimed(3), ONCE),
    Operation("nack some", lambda queue, lease: queue.nack(lease, refs(lease, 2, 0)), claimed(3)),
    Operation("nack chunks", lambda queue, lease: queue.nack(lease), claimed(BACK)),
    Operation("nack chunks for later", lambda queue, lease: queue.nack(lease, delay=99), claimed(BACK)),
    Operation("nack chunks to the dead", lambda queue, lease: queue.nack(lease), claimed(BACK), ONCE),
    Operation("nack until the queue pauses", lambda queue, lease: queue.nack(lease), claimed(3), FRAGILE),
    Operation(
        "nack some until it does", lambda queue, lease: queue.nack(lease, refs(lease, 2, 0)), claimed(3), FRAGILE
    ),
    Operation("reclaim until it does", lambda queue, _: queue.backlog().ready, expired(3), FRAGILE),
    Operation("release", lambda queue, lease: queue.release(lease), claimed(3)),
    Operation("release some", lambda queue, lease: queue.release(lease, refs(lease, 1)), claimed(3)),
    Operation("release chunks", lambda queue, lease: queue.release(lease), claimed(HALF)),
    Operation("reclaim by looking", lambda queue, _: queue.backlog().ready, expired(3)),
    Operation("reclaim chunks", lambda queue, _: queue.backlog().ready, expired(BACK)),
    Operation("reclaim by claiming", lambda queue, _: _claim_twice(queue), expired(3)),
    Operation("redrive", lambda queue, _: queue.admin.redrive(2), dead(3), ONCE),
    Operation("redrive chunks", lambda queue, _: queue.admin.redrive(), dead(BACK), ONCE),
    Operation("redrive nothing", lambda queue, _: queue.admin.redrive()),
    Operation("purge ready", lambda queue, _: queue.admin.purge("ready"), published(3)),
    Operation("purge delayed", lambda queue, _: queue.admin.purge("delayed"), delayed),
    Operation("purge dead", lambda queue, _: queue.admin.purge("dead"), dead(3), ONCE),
    Operation("cancel ready", lambda queue, made: queue.admin.cancel(made[1]), ids),
    Operation("cancel delayed", lambda queue, made: queue.admin.cancel(made[1]), delayed),
    Operation("cancel what is gone", lambda queue, _: queue.admin.cancel("gone"), ids),
    Operation("forget", lambda queue, _: (queue.admin.forget("m7"), queue.publish("x", dedup_key="m7")[1]), duplicate),
    Operation("pause", lambda queue, _: (queue.admin.pause(), queue.stats().paused, queue.claim()), published(3)),
    Operation("resume", lambda queue, _: (queue.admin.resume(), queue.stats().paused), paused),
    Operation("process", lambda queue, _: [message.payload for message in processed(queue, _)], published(3)),
    Operation("set groups", lambda queue, _: _regrouped(queue, "exclusive"), published(30, group="a")),
    Operation("remove groups", lambda queue, _: _regrouped(queue, None), published(MANY, group="a"), groups="fair"),
    *(
        Operation(name, act, prepare, groups="exclusive")
        for name, act, prepare in (
            ("publish to a group", lambda queue, _: queue.publish("x", group="a"), nothing),
            ("publish many to groups", lambda queue, _: queue.publish_many(["x"] * 30, group="a"), published(3)),
            ("publish a publication", lambda queue, _: (_published(queue), queue.publication("p")[:7]), nothing),
            ("claim of groups", lambda queue, _: queue.claim(), mixed),
            ("claim some of groups", lambda queue, _: queue.claim(max_messages=150), mixed),
            ("claim the next of groups", lambda queue, lease: queue.claim_next(ack=lease), held),
            ("ack groups", lambda queue, lease: queue.ack(lease), held),
            ("nack groups", lambda queue, lease: queue.nack(lease), held),
            ("nack some of groups", lambda queue, lease: queue.nack(lease, refs(lease, 2, 0)), held),
            ("ack a publication", lambda queue, lease: (queue.ack(lease), queue.publication("p")[:7]), counted),
            ("nack a publication", lambda queue, lease: (queue.nack(lease), queue.publication("p")[:7]), counted),
            ("release groups", lambda queue, lease: queue.release(lease), held),
            ("reclaim groups", lambda queue, _: queue.backlog().ready, late),
            ("publish what expires", lambda queue, _: queue.publish("x", group="a", expires=600), nothing),
            ("publish many that expire", lambda queue, _: queue.publish_many(["x"] * 30, expires=600), published(3)),
            ("claim behind what expired", lambda queue, _: _claim_and_look(queue), over(20)),
            ("claim some behind many expired", lambda queue, _: _claim_and_look(queue, max_messages=9), over(1_200)),
            ("look for more than expired", lambda queue, _: queue.backlog().ready, over(20)),
            ("redrive what expired", lambda queue, _: queue.admin.redrive(), unclaimed),
        )
    ),
)


def _published(queue: Any) -> int:
    return int(queue.publish_many([f"m{n}" for n in range(MANY)], publication="p").accepted)


def _regrouped(queue: Any, groups: str | None) -> Any:
    found = queue.admin.configure(groups=groups) if groups else queue.admin.configure(reset="groups")
    return found.stored, queue.stats()[:4]


def _claim_and_look(queue: Any, **more: Any) -> Lease:
    """Claim, and look again: if the reply to the claim got lost, the next call tells which messages expired."""
    lease: Lease = queue.claim(**more)
    queue.backlog()
    return lease


def _only(queue: Any) -> Lease:
    queue.publish("x")
    lease: Lease = queue.claim()
    return lease


def _claim_twice(queue: Any) -> list[Any]:
    return [message.payload for _ in range(2) for message in queue.claim(max_messages=5).messages]
