"""Scenes of the other disciplines, of the hand-over and of Spark's stream: each leaves a golden file."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import rmq_core
from rmq_core import JobQueue, ReliableQueue, RotationQueue, StreamQueue, exponential
from rmq_core.jobs import Cron, Every, JobsConfig, NewJob, Repeat, worker
from rmq_core.jobs.worker import Done, Verdict
from rmq_core.reliable import ReliableConfig
from rmq_core.rotation import RotationConfig, claiming
from rmq_core.streams import QueueConfig
from tests.core.stored.deterministic import begin
from tests.core.stored.leased_scenes import HEADERS, HOUR_S, PAYLOADS, queue

RELIABLE = "rmq:reliable:{q}:"


def reliable(url: str, client: Any) -> None:
    """Messages in the queue, held by two workers, held without a claim, expired, dead, and a foreign text."""
    with (
        ReliableQueue(url, "q", ReliableConfig(worker="w1", timeout=HOUR_S, max_deliveries=2)) as one,
        ReliableQueue(url, "q", ReliableConfig(worker="w 2", timeout=HOUR_S, max_deliveries=2)) as two,
    ):
        for payload in ("dies", "dies too"):
            one.publish(payload)
            one.nack(one.claim(), reason="it broke")
            one.nack(one.claim(), reason="again")
        one.publish("expires", headers=HEADERS)
        lease = two.claim()
        field, claim = next(iter(client.hgetall(f"{RELIABLE}claims:w 2").items()))
        client.hset(f"{RELIABLE}claims:w 2", field, b"%b 1 0" % claim.split()[0])
        one.reap()
        assert two.claim().count == 1
        assert lease
        for payload in PAYLOADS.values():
            one.publish(payload, headers=HEADERS)
        one.claim(max_messages=2, lease=2 * HOUR_S)
        client.lpush(f"{RELIABLE}queue", "no envelope")
        client.lmove(f"{RELIABLE}queue", f"{RELIABLE}processing:w1", "RIGHT", "LEFT")
        one.reap()


def rotation(url: str, client: Any) -> None:
    """Ids that are new, in progress, late, done; ids that look stamped or are no UTF-8; a waiter."""
    with RotationQueue(url, "q", RotationConfig(timeout=HOUR_S)) as q:
        q.publish_many(["done", "late", "going", "going"])
        for _ in range(4):
            assert q.safe_pop()
        begin(q, claiming.claim(q._engine, wait=HOUR_S), 3)
        q.mark_done("done")
        entries = client.lrange("q", 0, -1)
        client.lset("q", entries.index(next(one for one in entries if one.startswith(b"late"))), "late|1000000000")
        q.publish_many(["new", "x|1700000000", "x|0", "50 %"])
        q.push(b"\xff")


def streams(url: str, client: Any) -> None:
    """Entries that are new, held by a lease, given back, held by a native consumer and acknowledged."""
    config = QueueConfig("rmq:{q}:stream", "billing", "c1", claim_idle_ms=1000 * HOUR_S)
    with StreamQueue(url, "q", config) as q:
        for payload in ({"n": 1, "a": "ż"}, *({"n": n} for n in range(2, 8))):
            q.publish(payload)
        q.ack(q.claim())
        q.nack(q.claim())
        q.release(q.claim())
        q.claim(max_messages=2, owner="worker")
        q.read(50, 1)


def jobs(url: str, client: Any) -> None:
    """Jobs that are ready, delayed, unique, with options, held by a worker, retried, dead; results; rules; events."""
    config = JobsConfig(lease=HOUR_S, max_attempts=2)
    with JobQueue(url, "q", config) as q:
        q.add("mail", {"to": "a"}, job_id="finished")
        q.add("mail", 7, job_id="fails", attempts=5, backoff=exponential(base=60, cap=3600, jitter=0))
        q.add("mail", job_id="dies", attempts=1)
        q.add("mail", "text", job_id="held")
        taken = q._driver.run(worker.turn(q._engine, "worker 1", Done.nothing(), 4))
        finished, fails, dies, _ = taken
        done = Done(["finished", "fails"], ["finished"], [finished.entry], [("finished", b'{"sent":true}')])
        q._driver.run(worker.turn(q._engine, "worker 1", done, 0))
        q._driver.run(worker.fail(q._engine, "worker 1", fails, "fails", Verdict(1, 120, "E: no\tlink")))
        q._driver.run(worker.fail(q._engine, "worker 1", dies, "dies", Verdict(1, None, "E: bad"), stored=True))
        q.add("mail", job_id="dies-too", attempts=1)
        (dies,) = q._driver.run(worker.turn(q._engine, "worker 1", Done.nothing(), 1))
        q._driver.run(worker.fail(q._engine, "worker 1", dies, "dies-too", Verdict(1, None, "E: bad")))
        q.add_unique("once", [1], job_id="unique")
        assert not q.add_unique("once", [1], job_id="unique").accepted
        q.add("late", None, delay=HOUR_S, job_id="twice")
        q.add("late", None, delay=2 * HOUR_S, job_id="twice")
        q.add_bulk([NewJob("ready", {"n": 1.5}, job_id="ready", attempts=3)])
        for name, payload in PAYLOADS.items():
            q.publish(payload, dedup_key=name, headers=HEADERS)


def jobs_leases(url: str, client: Any) -> None:
    """Leases of jobs: anonymous, taken over, settled in part; a record; an expired one that was reclaimed."""
    with JobQueue(url, "q", JobsConfig(lease=HOUR_S, max_attempts=4)) as q:
        q.add_bulk([NewJob("", {"n": n}, job_id=f"j{n}") for n in range(10)])
        q.claim()
        q.claim(max_messages=2, lease_id="taken", owner="first")
        q.claim(max_messages=2, lease_id="taken", owner="second try")
        lease = q.claim(max_messages=3, lease_id="part", owner="worker")
        q.ack(lease, [lease.messages[0]])
        q.nack(lease, [lease.messages[1]], reason="no", delay=HOUR_S)
        q.ack(q.claim(max_messages=2, lease_id="done", owner="worker 1"))
        q.claim(lease_id="late", owner="gone")
        client.zadd("rmq:{q}:jobs:leases", {"late": 1})
        q.backlog()
        q.publish("by IDMP where the server has it")


def jobs_paused(url: str, client: Any) -> None:
    """A queue that was paused before anything was delivered, and still is."""
    with JobQueue(url, "q", JobsConfig(lease=HOUR_S)) as q:
        q.admin.pause()
        q.add_bulk([NewJob("", {"n": n}, job_id=f"j{n}") for n in range(2)])
        q.claim()


def jobs_rules(url: str, client: Any) -> None:
    """Repeatable jobs: every, cron, with a limit, an end and options; one that fired."""
    with JobQueue(url, "q") as q:
        end = datetime(2100, 1, 1, tzinfo=UTC)
        every = Repeat(Every(HOUR_S), limit=9, end=end, attempts=2, backoff=exponential(base=1, cap=60, jitter=0))
        q.upsert_repeatable_job("tick", {"a": "ż"}, repeat=every)
        q.upsert_repeatable_job("nightly", repeat=Repeat(Cron("0 3 29 2 *", "Europe/Warsaw")), key="report")
        client.zincrby("rmq:{q}:jobs:repeats", -1000 * HOUR_S, "tick")
        q.promote()
        client.zadd("rmq:{q}:jobs:repeats", {"report": 4102455600000})  # a date that is not soon


def handed_over(url: str, client: Any) -> None:
    """A lease that a submitter holds for its driver, and one that the driver has acked."""
    with queue(url) as q:
        q.publish_many([rmq_core.NewMessage(f"m{n}", id=f"m{n}") for n in range(3)])
        q.claim(max_messages=2, lease_id="dag/run/task/-1", owner="dag/run/task/-1 try 1")
        q.claim(lease_id="dag/run/other/-1", owner="dag/run/other/-1 try 1")
        owner = "dag/run/other/-1 try 1"
        q.ack(q.adopt("dag/run/other/-1", owner=owner, if_owner=owner))


def spark_stream(url: str, client: Any) -> None:
    """Spark's stream after batch 1 was committed and acked, and batch 2 was claimed."""
    from rmq_spark.stream.batch_leases import BatchLeases

    with queue(url) as q:
        q.publish_many([rmq_core.NewMessage(f"m{n}", id=f"m{n}") for n in range(5)])
        leases = batch_leases_of(BatchLeases, url, q, seq=0)
        leases.claim(1, 2, 0)
        leases.finish(1)
        leases.claim(2, 2, 0)
        leases.close()


def batch_leases_of(kind: Any, url: str, q: Any, seq: int, stream: str = "s1") -> Any:
    """The batch leases of the consumer `reader`, as a query makes it from its checkpoint."""
    from rmq_spark.place.source import Source
    from rmq_spark.stream.batch_leases import Offset

    return kind(Source(rmq_core.RedisSettings.from_url(url), "q"), q, Offset("q", "reader", stream, seq), HOUR_S)


SCENES = {
    "reliable": reliable,
    "rotation": rotation,
    "streams": streams,
    "jobs": jobs,
    "jobs_leases": jobs_leases,
    "jobs_paused": jobs_paused,
    "jobs_rules": jobs_rules,
    "handed_over": handed_over,
    "spark_stream": spark_stream,
}
