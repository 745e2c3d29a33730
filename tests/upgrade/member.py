"""The program of a process of either version: it uses only names that all versions have. Not imported by tests.

    member.py FOLDER ROLE URL [DISCIPLINE NAME]

Keys that begin with `test:` are the tests' own: `test:published` lists the payloads whose publish returned,
`test:effects` counts the effects of each, `test:<verb>` counts what consumers did.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
import time
from contextlib import suppress
from typing import Any

import redis

import rmq_core

FOLDER, ROLE, URL, *REST = sys.argv[1:]
LEASE_S = 2
PAUSE_S = 0.002
"""Between two messages, so that consumers keep up with publishers."""
ENOUGH = 1000
"""So many deliveries that no message becomes a dead letter."""


def public(name: str) -> Any:
    """Return a public name: 0.1.0 has all in `rmq_core`, later versions have the rarer ones in modules of it."""
    for module in ("", ".jobs", ".orchestrate", ".reliable", ".rotation", ".streams"):
        with suppress(ImportError, AttributeError):
            return getattr(importlib.import_module(f"rmq_core{module}"), name)
    raise AttributeError(f"rmq_core has no {name}, nor has a module of it")


def configs(name: str) -> dict[str, Any]:
    return {
        "leased": rmq_core.LeasedConfig(lease=LEASE_S, max_deliveries=ENOUGH),
        "reliable": public("ReliableConfig")(timeout=LEASE_S, max_deliveries=ENOUGH),
        "rotation": public("RotationConfig")(timeout=LEASE_S),
        "streams": public("QueueConfig").named(name, claim_idle_ms=1000 * LEASE_S),
        "jobs": public("JobsConfig")(lease=LEASE_S, max_attempts=ENOUGH, backoff=rmq_core.exponential(0, 0)),
    }


def opened(discipline: str, name: str) -> Any:
    return rmq_core.open_queue(URL, name, discipline, config=configs(name)[discipline])


def publish(discipline: str, name: str) -> None:
    """Publish until the process is killed. No two processes publish the same payload: a lost one must be missed."""
    queue, plain = opened(discipline, name), redis.Redis.from_url(URL)
    for number in itertools.count():
        payload = f"{os.getpid()}-{number}"
        queue.publish(payload if discipline == "rotation" else {"id": payload}, **options(queue, payload, number))
        plain.rpush("test:published", payload)
        time.sleep(PAUSE_S)
        if not number:
            print("started", flush=True)


def options(queue: Any, payload: str, number: int) -> dict[str, Any]:
    """Let some messages have everything that the discipline can store."""
    able = queue.capabilities
    given: dict[str, Any] = {}
    if able.headers and number % 3 == 1:
        given["headers"] = {"from": payload}
    if able.dedup and number % 5 == 1:
        given["dedup_key"] = payload
    if able.delay and number % 7 == 1:
        given["delay"] = 0.3
    return given


def consume(discipline: str, name: str) -> None:
    """Process messages until the process is killed. A lease that was lost to a successor is no failure."""
    queue, plain = opened(discipline, name), redis.Redis.from_url(URL)
    print("started", flush=True)
    for turn in itertools.count():
        lease = queue.claim(wait=0.2)
        if lease is None:
            if discipline == "reliable":
                queue.reap(timeout=LEASE_S)
            continue
        try:
            plain.incr(f"test:{settle(queue, lease, plain, turn)}")
        except rmq_core.LeaseLost:
            plain.incr("test:lost")


def settle(queue: Any, lease: Any, plain: redis.Redis, turn: int) -> str:
    """Requeue every ninth message as failed and every eleventh uncounted; ack the others after their effect."""
    if turn % 9 == 5:
        queue.nack(lease, reason=f"nacked by {os.getpid()}")
        return "nacked"
    if turn % 11 == 5:
        queue.release(lease)
        return "released"
    for message in lease.messages:
        payload = message.payload
        plain.hincrby("test:effects", payload if queue.discipline == "rotation" else payload["id"], 1)
    queue.ack(lease)
    return "acked"


def left(discipline: str, name: str) -> None:
    """Print for each line of the input how many messages and leases the queue holds.

    It adds the leases and not their messages: `stats` counts these in a second call, when a lease may be gone.
    """
    queue = opened(discipline, name)
    for _ in sys.stdin:
        stats = queue.stats()
        print(stats.ready + stats.delayed + stats.dead + stats.leases, flush=True)


def hold(discipline: str, name: str) -> None:
    """Claim a message, and ack it on request; print the outcome."""
    queue = opened(discipline, name)
    lease = queue.claim(wait=10)
    print("claimed", flush=True)
    sys.stdin.readline()
    try:
        queue.ack(lease)
    except rmq_core.LeaseLost:
        print("refused", flush=True)
    else:
        print("settled", flush=True)


def submit(name: str) -> None:
    """Claim a batch for a driver, hand it over, and print the outcome."""
    queue = rmq_core.LeasedQueue(URL, name, rmq_core.LeasedConfig(lease=30))
    lease = queue.claim(max_messages=4, lease_id="run", owner="try 1")
    submission = public("Submission")(queue, lease)
    print(json.dumps(submission.handover(rmq_core.RedisSettings.from_url(URL)).environment()), flush=True)
    sys.stdin.readline()
    (submission.poll if hasattr(submission, "poll") else submission.look)()
    print("adopted" if submission.adopted else "not adopted", flush=True)
    sys.stdin.readline()
    try:
        print(submission.finish(), flush=True)
    except rmq_core.RedisMessageQueueError as error:
        submission.give_back()
        print(type(error).__name__, flush=True)


def drive() -> None:
    """Adopt the lease of the environment, and ack it on request."""
    handover = public("Handover").from_environment()
    queue = rmq_core.LeasedQueue(URL, handover.queue, handover.config)
    lease = queue.adopt(handover.lease_id, owner=handover.owner, if_owner=handover.owner)
    print(lease.count, flush=True)
    sys.stdin.readline()
    queue.ack(lease)
    print("acked", flush=True)
    time.sleep(600)


if not str(rmq_core.__file__).startswith(FOLDER):
    sys.exit(f"{rmq_core.__file__} is not in {FOLDER}")
{"publish": publish, "consume": consume, "left": left, "hold": hold, "submit": submit, "drive": drive}[ROLE](*REST)
