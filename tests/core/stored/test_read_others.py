"""This version reads format 1 for ever: every verb works on the golden files of the other disciplines."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rmq_core import Lease, LeaseAlreadySettled, LeaseLost, MalformedMessage, RedisMessageQueue
from rmq_core.jobs import JobsConfig
from rmq_core.redis_message_queue.stored import ClaimedMessage
from rmq_core.reliable import ReliableConfig
from rmq_core.reports import Outcome
from rmq_core.rotation import RotationConfig
from rmq_core.streams import QueueConfig, QueueMessage
from tests.core.reliable.bench import age, age_strays
from tests.core.stored.golden import load, now_ms
from tests.core.stored.leased_scenes import HEADERS, HOUR_S, PAYLOADS
from tests.core.stored.scenes import golden
from tests.core.stored.test_read_leased import shape
from tests.core.worlds import World

JOBS = "rmq:{q}:jobs:"


def test_a_message_queue_settles_by_the_token_of_its_gateway(redis_client: Any) -> None:
    load(redis_client, golden("message_queue"))
    settings: dict[str, Any] = {"visibility_timeout_seconds": HOUR_S, "max_delivery_count": 2, "client": redis_client}
    queue = RedisMessageQueue("{orders}", **settings, enable_completed_queue=True, enable_failed_queue=True)
    gateway: Any = queue._state.gateway
    assert gateway.peek_messages(queue.key.completed, 9) == [b'{"a": "\\u017c", "b": 1}', b"done"]
    assert gateway.peek_messages(queue.key.failed, 9) == [b"fails"]
    assert gateway.peek_messages(queue.key.dead_letter, 9) == [b"held"]
    assert [queue.publish(known) for known in ("done", {"b": 1, "a": "ż"}, "fails", "held")] == [False] * 4
    claimed = ClaimedMessage(b"again", "~0123456789abcdef8:11.000000000000eabc")
    assert gateway.renew_message_lease(queue.key.processing, claimed.stored_message, claimed.lease_token)
    assert not gateway.remove_message(queue.key.processing, b"again", lease_token=claimed.lease_token + "x")
    assert gateway.remove_message(queue.key.processing, b"again", lease_token=claimed.lease_token)
    assert gateway.redrive_messages(queue.key.dead_letter, queue.key.pending) == 1
    claimed = gateway.wait_for_message_and_move(queue.key.pending, queue.key.processing)
    assert claimed.stored_message == b"held"
    assert re.fullmatch(r"~[0-9a-f]+:12\.[0-9a-f]{16}", claimed.lease_token)


def reliable(world: World, name: str = "w1") -> Any:
    return world.open("reliable", "q", ReliableConfig(worker=name, timeout=HOUR_S, max_deliveries=2))


def test_a_worker_settles_what_it_holds_and_claims_the_rest(world: World) -> None:
    load(world.client, golden("reliable"))
    queue = reliable(world)
    assert queue.stats()[:5] == (2, 0, 4, 2, 2)
    dead = [("nack", "w1", "it broke"), ("nack", "w1", "again")]
    assert list(map(shape, queue.admin.dead_letters())) == [
        ("0123456789abcdef-1", "dies too", {}, 2, dead), ("0123456789abcdef-0", "dies", {}, 2, dead),
    ]  # fmt: skip
    envelopes = world.client.lrange("rmq:reliable:{q}:processing:w1", 1, 2)[::-1]
    lease = Lease("q", "~1", "w1", 2, None, "0000000000007abc", envelopes=envelopes)
    assert [message.payload for message in lease.messages] == [PAYLOADS["text"], PAYLOADS["bytes"]]
    assert queue.extend(lease, by=3 * HOUR_S)
    assert queue.ack(lease, [lease.messages[0]]).outcomes == (Outcome.SETTLED,)
    assert queue.nack(lease, [lease.messages[1]], reason="no").outcomes == (Outcome.SETTLED,)
    with pytest.raises(LeaseLost):
        queue.ack(Lease("q", "~1", "w 2", 1, None, "0000000000003abc", envelopes=envelopes[:1]))
    stray = queue.claim()
    assert shape(stray.message) == ("0123456789abcdef-5", PAYLOADS["dict"], HEADERS, 1, [])
    again = queue.claim()
    assert shape(again.message) == ("0123456789abcdef-4", PAYLOADS["bytes"], HEADERS, 2, [("nack", "w1", "no")])
    assert queue.release(again).settled == 1
    assert queue.admin.redrive() == 2
    assert queue.stats()[:5] == (5, 0, 2, 2, 0)


def test_a_reaper_returns_what_is_held_for_too_long(world: World) -> None:
    load(world.client, golden("reliable"))
    queue = reliable(world)
    age(world, "w 2", 2 * HOUR_S * 1000)
    age_strays(world, 2 * HOUR_S * 1000)
    assert tuple(queue.reap()) == (1, 1, 0)
    dead, *_ = queue.admin.dead_letters()
    assert (dead.deliveries, [each.kind for each in dead.history]) == (2, ["expired", "expired"])
    lease = queue.claim(max_messages=9)
    assert shape(lease.messages[0]) == ("0123456789abcdef-5", PAYLOADS["dict"], HEADERS, 2, [("expired", "w1", "")])
    rest = queue.claim(max_messages=9)
    assert rest.messages[0].payload == PAYLOADS["list"]
    with pytest.raises(MalformedMessage):
        _ = rest.messages[1]


def test_a_rotation_goes_on_where_it_was(world: World) -> None:
    load(world.client, golden("rotation"))
    queue = world.open("rotation", "q", RotationConfig(timeout=HOUR_S))
    assert queue.stats()[:3] == (6, 0, 2)
    assert queue.admin.peek(9)[0].payload == "late"
    assert [queue.safe_pop() for _ in range(7)] == ["late", "new", "x|1700000000", "x|0", "50 %", "\udcff", None]
    assert world.client.zcard("rmq:rotation:{q}:done") == 0
    stamp = now_ms(world.client) // 1000
    going = world.client.lrange("q", 0, -1)
    held = next(entry for entry in going if entry.startswith(b"going"))
    assert abs(int(held.rpartition(b"|")[2]) - stamp) < 60
    assert queue.mark_done("going")
    assert queue.mark_done("going")
    assert not queue.mark_done("done")
    assert queue.stats()[:3] == (0, 0, 6)


def streams(world: World) -> Any:
    config = QueueConfig("rmq:{q}:stream", "billing", "c1", claim_idle_ms=1000 * HOUR_S)
    return world.open("streams", "q", config)


def test_a_lease_of_a_stream_is_settled_under_its_token(world: World) -> None:
    load(world.client, golden("streams"))
    queue = streams(world)
    token = "~worker/0000000000007abc.0000000000008abc"
    entries = [entry for entry, _ in world.client.xrange("rmq:{q}:stream")][3:5]
    envelopes = [b'0 1 0 %b j0 {"n":%d}' % (entry, n) for n, entry in enumerate(entries, 4)]
    lease = Lease("q", token.rpartition(".")[0], "worker", 2, None, token, envelopes=envelopes)
    assert queue.extend(lease, by=HOUR_S)
    assert queue.ack(lease, [lease.messages[0]]).outcomes == (Outcome.SETTLED,)
    assert queue.nack(lease, [lease.messages[1]]).outcomes == (Outcome.SETTLED,)
    group = world.client.xinfo_groups("rmq:{q}:stream")[0]
    assert (group["consumers"], group["pending"]) == (2, 4)
    first = queue.claim()
    assert (first.message.payload, first.message.deliveries) == ({"n": 7}, 1)
    rest = queue.claim(max_messages=9)
    assert [(one.payload["n"], one.deliveries) for one in rest.messages] == [(2, 2), (3, 1), (5, 2)]
    assert queue.release(rest).settled == 3


def test_a_native_consumer_acks_what_it_holds(world: World) -> None:
    load(world.client, golden("streams"))
    queue = streams(world)
    assert queue.backlog_stats()[:4] == (7, 1, 5, 2)
    entries = [entry.decode() for entry, _ in world.client.xrange("rmq:{q}:stream")]
    assert queue.ack(QueueMessage("rmq:{q}:stream", "billing", entries[5], {})).settled == 1
    assert [one.payload for one in queue.claim_stale()] == [{"n": 2}, {"n": 3}]
    assert [one.payload for one in queue.read(50, 9)] == [{"n": 7}]
    assert [entry["consumer"] for entry in world.client.xpending_range("rmq:{q}:stream", "billing", "-", "+", 9)] == [
        b"c1", b"c1", b"~worker/0000000000007abc.0000000000008abc", b"~worker/0000000000007abc.0000000000008abc", b"c1",
    ]  # fmt: skip
    assert queue.trim() == 1


def jobs(world: World, name: str) -> Any:
    load(world.client, golden(name))
    return world.open("jobs", "q", JobsConfig(lease=HOUR_S, max_attempts=2))


def test_a_worker_gets_jobs_with_all_their_fields(world: World) -> None:
    queue = jobs(world, "jobs")
    assert queue.stats()[:5] == (6, 3, 1, 0, 2)
    ids = ["unique", "ready", *(f"0123456789abcdef-{n}" for n in range(4))]
    datas = [[1], {"n": 1.5}, *PAYLOADS.values()]
    assert [(message.id, message.payload) for message in queue.admin.peek(9)] == list(zip(ids, datas, strict=True))
    for name, score in world.client.zrange(f"{JOBS}delayed", 0, -1, withscores=True):
        world.client.zadd(f"{JOBS}delayed", {name: score - 3 * HOUR_S * 1000})
    lease = queue.claim(max_messages=99)
    found = {message.id: message for message in lease.messages}
    assert shape(found["fails"])[1::2] == (7, 2)
    assert shape(found["fails"])[4] == [("nack", "worker 1", "E: no link")]
    assert found["fails"].headers == {"rmq-attempts": "5", "rmq-backoff": "60 3600 0", "rmq-name": "mail"}
    assert [message.id for message in lease.messages].count("twice") == 2
    assert {name: found[name].headers for name in ids[2:]} == dict.fromkeys(ids[2:], HEADERS)
    report = queue.nack(lease)
    assert (report.settled, report.dead) == (9, 0)
    report = queue.nack(queue.claim(max_messages=99))
    assert report.dead == 7  # the others have attempts of their own
    assert {message.id for message in queue.admin.peek(9)} == {"ready", "fails"}


def test_results_events_dead_letters_and_ids_of_jobs_are_known(world: World) -> None:
    queue = jobs(world, "jobs")
    assert queue.get_result("finished").value == {"sent": True}
    assert queue.get_result("dies").error == "E: bad"
    assert queue.wait_for_result("finished", 9) == {"sent": True}
    events = queue.read_events("0-0", 9)
    assert [(one.event, one.job_id, one.detail) for one in events] == [
        ("active", "finished", ""), ("active", "fails", ""), ("completed", "finished", ""),
        ("failed", "fails", "E: no link"), ("retry", "fails", "120000"), ("failed", "dies", "E: bad"),
        ("dead", "dies", "E: bad"), ("failed", "dies-too", "E: bad"), ("dead", "dies-too", "E: bad"),
        ("delayed", "twice", ""), ("delayed", "twice", ""),
    ]  # fmt: skip
    newest, dead = queue.peek_dlq()
    assert newest.id == "dies-too"
    assert (dead.id, dead.name, dead.data, dead.attempts, dead.attempt) == ("dies", "mail", None, 1, 1)
    assert not queue.add_unique("once", [1], job_id="unique").accepted
    assert [queue.publish("x", dedup_key=name).accepted for name in PAYLOADS] == [False] * 4
    assert queue.admin.forget("unique")
    assert queue.cancel_delayed("twice")
    assert queue.admin.redrive() == 2
    assert queue.stats()[:5] == (8, 2, 1, 0, 0)


def test_another_worker_gets_the_job_of_a_silent_one(world: World) -> None:
    queue = jobs(world, "jobs")
    entry = world.client.xpending_range(f"{JOBS}ready", "jobs", "-", "+", 1)[0]["message_id"]
    world.client.xclaim(f"{JOBS}ready", "jobs", "worker 1", 0, [entry], idle=2 * HOUR_S * 1000, justid=True)
    lease = queue.claim()
    assert (lease.message.id, lease.message.payload, lease.message.deliveries) == ("held", "text", 2)


def held(lease_id: str, token: str, count: int, owner: str) -> Lease:
    return Lease("q", lease_id, owner, count, None, token, named=not lease_id.startswith("~"))


def test_leases_of_jobs_are_settled_taken_over_and_reclaimed(world: World) -> None:
    queue = jobs(world, "jobs_leases")
    part = held("part", "4.0000000000006abc", 3, "worker")
    assert [(one.index, one.payload) for one in queue.read(part)] == [(2, {"n": 5})]
    info = queue.lease_info("part")
    assert (info.owner, info.count, info.settled, info.takeovers, info.fence) == ("worker", 3, 2, 0, 4)
    assert queue.extend(part)
    assert queue.ack(held("~0123456789abcdef1", "1.0000000000003abc", 1, "")).settled == 1
    with pytest.raises(LeaseLost):
        queue.ack(held("taken", "2.0000000000004abc", 2, "first"))
    with pytest.raises(LeaseAlreadySettled):
        queue.claim(lease_id="done")
    assert queue.settled("done")[1:3] == (2, "worker 1")
    adopted = queue.adopt("taken", owner="second try", if_owner="second try")
    assert [one.deliveries for one in queue.read(adopted)] == [2, 2]
    assert queue.ack(part).settled == 1
    assert queue.settled("part").acked == 2
    world.client.zadd(f"{JOBS}leases", {"taken": 1})
    assert queue.backlog().ready == 3
    assert {one.id: one.deliveries for one in queue.admin.dead_letters()} == {"j1": 2, "j2": 2}
    assert [one.id for one in queue.admin.peek(9)][:2] == ["j9", "j8"]
    assert [(each.kind, each.owner) for each in queue.admin.peek(9)[1].history] == [("expired", "gone")]


def test_a_taken_over_lease_of_jobs_whose_attempts_are_used_up_is_reclaimed(world: World) -> None:
    queue = jobs(world, "jobs_leases")
    assert queue.claim(lease_id="taken").message.id == "j9"
    assert {one.id for one in queue.admin.dead_letters()} == {"j1", "j2"}


def test_rules_of_repeatable_jobs_go_on(world: World) -> None:
    queue = jobs(world, "jobs_rules")
    tick, report = queue.get_repeatable_jobs()
    assert (tick.key, tick.name, tick.data, tick.fired, tick.rule["limit"]) == ("tick", "tick", {"a": "ż"}, 1, 9)
    assert (report.key, report.name, report.rule["cron"], report.rule["tz"]) == (
        "report", "nightly", "0 3 29 2 *", "Europe/Warsaw",
    )  # fmt: skip
    world.client.zincrby(f"{JOBS}repeats", -1000 * HOUR_S - 1000, "tick")
    world.client.zadd(f"{JOBS}repeats", {"report": now_ms(world.client) - 1})
    queue.promote()
    first, second, nightly = queue.admin.peek(9)
    assert first.id.partition("@")[0] == second.id.partition("@")[0] == "tick"
    assert (first.payload, dict(first.headers)) == (second.payload, dict(second.headers)) == (
        {"a": "ż"}, {"rmq-attempts": "2", "rmq-backoff": "1 60 0", "rmq-name": "tick"},
    )  # fmt: skip
    assert (nightly.id.partition("@")[0], nightly.raw) == ("report", b"null")
    assert queue.get_repeatable_jobs()[0].fired == 2
    assert queue.remove_repeatable("report")
