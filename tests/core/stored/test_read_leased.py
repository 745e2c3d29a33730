"""This version reads format 1 for ever: every verb works on a leased queue that a golden file describes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from rmq_core import (
    Isolation,
    Lease,
    LeaseAlreadySettled,
    LeasedConfig,
    LeaseLost,
    LeaseOwnedByOther,
    Message,
    Overflow,
    Stage,
    exponential,
)
from rmq_core.errors import ConsumerTaken
from rmq_core.exchange.loading import load as load_script
from rmq_core.kernel.base import tools_of
from rmq_core.leased.claiming import _fill
from rmq_core.messages import IsolatedGroup
from rmq_core.reports import Outcome
from tests.core.leases import drain, driver_of, engine_of, expire, key, payloads
from tests.core.stored.golden import load, now_ms
from tests.core.stored.leased_scenes import HEADERS, HOUR_S, PAYLOADS
from tests.core.stored.scenes import golden
from tests.core.worlds import World

ID = "0123456789abcdef"
CONFIG = LeasedConfig(lease=HOUR_S, max_deliveries=2, completed_log=9, failed_log=9)
MIDWAY = {
    "leased_filling": ("1.0000000000001abc", 4010),
    "leased_nacking": ("1.0000000000001abc", 1005),
    "leased_releasing": ("1.0000000000001abc", 4003),
    "leased_reclaiming": ("3.0000000000002abc", 1005),
    "leased_overdue": ("3.0000000000002abc", 5008),
}


def stored(world: World, name: str, config: LeasedConfig | None = None) -> Any:
    """The queue of a golden file."""
    load(world.client, golden(name))
    return world.queue(config=config or LeasedConfig(lease=HOUR_S))


def held(lease_id: str, token: str, count: int, owner: str = "worker", *, named: bool = True) -> Lease:
    """A lease as the process that claimed it knows it."""
    return Lease("q", lease_id, owner, count, None, token, named=named)


def shape(message: Message) -> tuple[Any, ...]:
    failures = [(each.kind, each.owner, each.reason) for each in message.history]
    return message.id, message.payload, dict(message.headers), message.deliveries, failures


def by_id(messages: Iterable[Message]) -> dict[str, Message]:
    return {message.id: message for message in messages}


def test_stored_settings_are_followed(world: World) -> None:
    queue = stored(world, "leased_settings")
    assert queue.admin.settings().stored == {
        "backoff": exponential(1, 60, 0.25), "dedup": True, "journal": timedelta(days=1), "max_deliveries": 3,
        "max_hold": None, "max_ready": 9, "overflow": Overflow.BLOCK(2.5),
    }  # fmt: skip
    assert [(each.program, each.passes) for each in queue.admin.settings().differing] == [("bob", "max_deliveries=5")]
    assert [queue.publish("same").accepted for _ in range(2)] == [True, False]


def test_a_consumer_gets_every_kind_of_payload_as_it_was_published(world: World) -> None:
    queue, now = stored(world, "leased_messages"), now_ms(world.client)
    expected = [("0123456789abcdef-0", "generated id", {}, 0, [])]
    expected += [(name, payload, HEADERS, 0, []) for name, payload in PAYLOADS.items()]
    assert list(map(shape, queue.admin.peek(9))) == expected
    lease = queue.claim(max_messages=9)
    assert list(map(shape, lease.messages)) == [(*one[:3], 1, []) for one in expected]
    assert all(abs(message.enqueued_ms - now) < 60_000 for message in lease.messages)
    assert [message.index for message in queue.messages(lease)] == [0, 1, 2, 3, 4]
    assert queue.read_arrow(lease)["payload"].to_pylist() == [message.raw for message in lease.messages]
    page = queue.admin.browse("delayed")
    assert (page.total, page.messages[0].id) == (1, "due")
    assert abs(page.due[0].timestamp() * 1000 - now - 2 * HOUR_S * 1000) < 60_000
    world.client.zincrby(key("delayed"), -3 * HOUR_S * 1000, world.client.zrange(key("delayed"), 0, 0)[0])
    queue.release(lease)
    assert len(drain(queue)) == 6


def test_a_consumer_gets_histories_isolated_groups_and_dead_letters(world: World) -> None:
    queue = stored(world, "leased_failures", CONFIG)
    stats = queue.stats()
    assert (stats.ready, stats.isolated, stats.delayed, stats.dead) == (6, 3, 1, 2)
    assert queue.backlog().groups == (IsolatedGroup(2, 2), IsolatedGroup(1, 1))
    newest, dead = queue.admin.dead_letters()
    alone = [("nack", "", "it broke"), ("expired", "worker", "")]
    assert shape(dead) == ("alone0", "poison0", {}, 2, alone)
    assert shape(newest) == ("alone2", "poison2", {}, 2, [("nack", "", "too")] * 2)
    assert [message.id for message in queue.admin.browse("completed").messages] == ["together1"]
    assert queue.admin.browse("failed").total == 9
    assert queue.admin.redrive() == 2
    world.client.zincrby(key("delayed"), -2 * HOUR_S * 1000, world.client.zrange(key("delayed"), -1, -1)[0])
    claims = []
    while lease := queue.claim(max_messages=9):
        claims.append(lease)
    found = by_id(message for lease in claims for message in lease.messages)
    assert shape(found["alone0"]) == ("alone0", "poison0", {}, 1, alone)
    assert shape(found["alone1"]) == ("alone1", "poison1", {}, 2, [("nack", "", "second line here")])
    together = [("nack", "batch", "all of it")] * 2
    assert shape(found["together0"]) == ("together0", "p", HEADERS, 4, [*together, ("nack", "", "by name")])
    assert shape(found["together2"]) == ("together2", "p", HEADERS, 3, together)
    assert shape(found["other2"]) == ("other2", "o", {}, 2, [("expired", "worker 2", "")])
    isolated = {lease.isolation: [message.id for message in lease.messages] for lease in claims if lease.isolation}
    assert isolated == {Isolation(2, 2): ["together2", "together3"], Isolation(2, 1): ["together0"]}
    for lease in claims:
        queue.nack(lease)
    assert {message.id for message in queue.admin.dead_letters()} == {"together0"}


def test_a_holder_settles_its_lease_under_its_token(world: World) -> None:
    queue = stored(world, "leased_leases")
    anonymous = held("~0123456789abcdef1", "1.0000000000001abc", 1, "", named=False)
    assert payloads(queue.messages(anonymous)) == ["m0"]
    assert queue.extend(anonymous, by=2 * HOUR_S)
    assert queue.ack(anonymous).settled == 1
    part = held("part", "5.0000000000004abc", 4)
    left = queue.read(part)
    assert [(message.index, message.payload, message.deliveries) for message in left] == [(2, "m5", 1), (3, "m6", 1)]
    info = queue.lease_info("part")
    assert (info.owner, info.state, info.count, info.settled, info.takeovers, info.fence) == (
        "worker", "held", 4, 2, 0, 5,
    )  # fmt: skip
    first = Message("m3", b"m3", "s", {}, 0, 1, 0, "part")
    assert queue.ack(part, [first, left[0]]).outcomes == (Outcome.SETTLED_BEFORE, Outcome.SETTLED)
    assert queue.nack(part, [left[1]], reason="x").outcomes == (Outcome.SETTLED,)
    assert queue.lease_info("part") is None
    assert queue.settled("part") is None
    with pytest.raises(LeaseLost):
        queue.ack(held("taken", "3.0000000000002abc", 2, "first"))
    assert queue.release(held("taken", "4.0000000000003abc", 2, "second try")).settled == 2
    assert [message.deliveries for message in queue.admin.peek(2)] == [0, 0]


def test_a_client_takes_leases_over_adopts_and_reclaims_them(world: World) -> None:
    queue = stored(world, "leased_leases")
    part = queue.claim(lease_id="part", owner="third")
    assert [(message.payload, message.deliveries) for message in queue.messages(part)] == [("m5", 2), ("m6", 2)]
    assert queue.lease_info("part").takeovers == 1
    with pytest.raises(LeaseOwnedByOther, match="keeper"):
        queue.adopt("kept", if_owner="worker")
    kept = queue.adopt("kept", owner="keeper", if_owner="keeper")
    (message,) = queue.messages(kept)
    assert shape(message) == ("m4", "m4", {}, 2, [("nack", "worker", "no")])
    expire(world, "taken")
    assert queue.backlog().ready == 5
    assert [(message.id, message.deliveries) for message in queue.admin.peek(2)] == [("m1", 2), ("m2", 2)]
    assert [(each.kind, each.owner) for each in queue.admin.peek(1)[0].history] == [("expired", "second try")]
    assert queue.admin.release_lease("part")
    assert queue.stats().leases == 2


def test_a_crash_of_one_who_works_one_by_one_counts_for_one_message(world: World) -> None:
    queue = stored(world, "leased_sequential")
    assert (queue.lease_info("held").state, queue.lease_info("crashed").state) == ("held", "returning")
    expire(world, "held")
    assert queue.backlog().ready == 5004
    counted = [message.deliveries for message in queue.admin.peek(5004)]
    assert (sum(counted), max(counted)) == (2, 1)


def test_a_claim_under_the_id_of_an_acked_lease_is_refused(world: World) -> None:
    queue = stored(world, "leased_leases")
    with pytest.raises(LeaseAlreadySettled):
        queue.claim(lease_id="done")
    record = queue.settled("done")
    assert (record.acked, record.owner) == (2, "worker 1")
    assert abs(record.at.timestamp() * 1000 - now_ms(world.client)) < 60_000


def test_a_run_finds_what_the_run_before_it_recorded(world: World) -> None:
    queue = stored(world, "leased_leases")
    assert tools_of(queue).register_consumer("reader", run="run-2", stream="s1", alive=9) == (3, None, 0)
    with pytest.raises(ConsumerTaken) as taken:
        tools_of(queue).register_consumer("moved", run="run-3", stream="s3", alive=9)
    assert taken.value.left == pytest.approx(HOUR_S, abs=60)
    assert tools_of(queue).renew_consumer("moved", run="run-2", stream="s2", alive=9) == (0, "s1", 5)


@pytest.mark.parametrize("end", ["go on", "take over and ack", "take over and nack", "expire"])
@pytest.mark.parametrize("name", MIDWAY)
def test_a_lease_that_stopped_in_the_middle_is_ended_and_loses_nothing(world: World, name: str, end: str) -> None:
    queue, (token, total) = stored(world, name), MIDWAY[name]
    count = world.client.llen(key("lease:large")) - 1
    if end == "expire":
        world.client.zadd(key("leases"), {"large": 1})
        queue.backlog()
    elif end == "go on":
        _go_on(world, queue, name, held("large", token, count))
    else:
        lease = queue.claim(lease_id="large", max_messages=9)
        left = total - world.client.llen(key("ready"))
        assert (lease.count, len(list(queue.messages(lease)))) == (count, left)
        queue.ack(lease) if end == "take over and ack" else queue.nack(lease)
        total -= left if end == "take over and ack" else 0
    assert world.client.exists(key("lease:large"), key("leases"), key("settled:large")) == 0
    assert world.client.llen(key("ready")) == total
    assert {message.id for message in queue.admin.peek(total)} == {"m"}


def _go_on(world: World, queue: Any, name: str, lease: Lease) -> None:
    """Let the process that stopped, or for a reclaim another, finish."""
    if name == "leased_nacking":
        assert queue.nack(lease, reason="no").settled == 5
        assert {message.history[0].reason for message in queue.admin.peek(1005)} == {"no"}
        assert Counter(envelope.split(b"\x1f")[1][:9] for envelope in world.client.lrange(key("ready"), 0, -1)) == {
            b"1 0 0 1\nm": 1005
        }
    elif name == "leased_releasing":
        assert queue.release(lease).settled == 3
    elif name in ("leased_reclaiming", "leased_overdue"):
        queue.backlog()
    else:
        exchange = _fill(engine_of(queue), lease, 4005, {})
        driver = driver_of(queue)
        loop = getattr(world, "loop", None)
        full = loop.call(driver.run, exchange) if loop else driver.run(exchange)
        assert full.count == 4005
        assert queue.lease_info("large").state == "held"
        queue.release(full)


def test_any_client_finishes_publications_whose_time_is_over(world: World) -> None:
    queue = stored(world, "leased_stages")
    for member in world.client.zrange(key("leases"), 0, -1):
        world.client.zadd(key("leases"), {member: 1})
    assert queue.backlog().ready == 5
    assert queue.stats().delayed == 2
    assert sorted(drain(queue)) == ["committed", "half", "k", "p", "p"]
    assert world.client.exists(key("staged:0123456789abcdef-4"), key("staged:0123456789abcdef-7"), key("leases")) == 0


def test_a_writer_publishes_and_drops_stages_and_a_sink_knows_its_last_batch(world: World) -> None:
    queue = stored(world, "leased_stages")
    keyed, plain = Stage(f"{ID}-0", 3, plain=False), Stage(f"{ID}-1", 2, plain=True)
    assert not queue.publish_staged([], sink="committed", batch=7)
    before = queue.backlog().ready
    assert queue.publish_staged([keyed, plain], sink="committed", batch=8)
    assert [message.id for message in queue.admin.peek(9)][before:] == ["k3", "p1", "p2"]  # the key of k1 is taken
    assert not queue.publish_staged([], sink="committed", batch=8)
    assert world.client.exists(key(f"stage:{ID}-0"), key(f"stage:{ID}-1")) == 0
    other = stored(world, "leased_stages") if world.client.flushdb() else None
    other.drop_staged([keyed, plain])
    assert world.client.exists(key(f"stage:{ID}-0"), key(f"stage:{ID}-1")) == 0


def test_a_publisher_is_refused_every_known_deduplication_key(world: World) -> None:
    queue = stored(world, "leased_deduplicated", LeasedConfig(dedup=True))
    assert [queue.publish(payload).accepted for payload in PAYLOADS.values()] == [False] * 4
    assert not queue.publish("y", dedup_key="order 7").accepted
    assert not queue.publish("y", dedup_key=b"\x00\x01").accepted
    assert queue.publish_many(PAYLOADS.values()).duplicates == 4
    assert queue.admin.forget("order 7")
    assert queue.publish("y", dedup_key="order 7").accepted
    assert queue.admin.cancel(queue.admin.peek(1)[0].id)
    assert queue.publish(PAYLOADS["text"]).accepted


def test_a_paused_queue_stays_paused_and_its_watcher_is_notified(world: World) -> None:
    queue = stored(world, "leased_waiting")
    assert queue.stats().paused
    with world.client.pubsub() as heard:
        heard.subscribe(key("channel"))
        assert heard.get_message(timeout=9)["type"] == "subscribe"
        queue.publish("y")
        assert heard.get_message(timeout=9)["data"] == b"1"
    assert queue.claim() is None
    queue.admin.resume()
    assert queue.claim(max_messages=9, wait=9).count == 2
    assert world.client.zrange(key("waiters"), 0, -1) == [b"w0000000000001abc"]


def test_a_resend_through_a_stored_slot_gets_the_stored_reply(redis_client: Any) -> None:
    load(redis_client, golden("leased_slots"))
    slot = key("slot:0000000000001def/0")
    script = load_script("leased/ack").source

    def ack(seq: int) -> Any:
        keys = [slot, key("leases"), key("lease:x"), key("settled:x")]
        return redis_client.eval(script, len(keys), *keys, seq, 60_000, "x", "token")

    assert (ack(3), ack(2), ack(4)) == (b"acked 1", b"superseded", b"lost")
