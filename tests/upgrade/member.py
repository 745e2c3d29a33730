"""The program of a process of either version: it uses only names that all versions have. Not imported by tests.

    member.py FOLDER ROLE URL [DISCIPLINE NAME]

Keys that begin with `test:` are the tests' own: `test:published` lists the payloads whose publish returned,
`test:effects` counts the effects of each.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from typing import Any

import redis

import rmq_core

FOLDER, ROLE, URL, *REST = sys.argv[1:]
LEASE_S = 2
ENOUGH = 1000
"""So many deliveries that no message becomes a dead letter."""


def configs(name: str) -> dict[str, Any]:
    return {
        "leased": rmq_core.LeasedConfig(lease=LEASE_S, max_deliveries=ENOUGH),
        "reliable": rmq_core.ReliableConfig(timeout=LEASE_S, max_deliveries=ENOUGH),
        "rotation": rmq_core.RotationConfig(timeout=LEASE_S),
        "streams": rmq_core.QueueConfig.named(name, claim_idle_ms=1000 * LEASE_S),
        "jobs": rmq_core.JobsConfig(lease=LEASE_S, max_attempts=ENOUGH, backoff=rmq_core.exponential(0, 0)),
    }


def opened(discipline: str, name: str) -> Any:
    return rmq_core.open_queue(URL, name, discipline, config=configs(name)[discipline])


def publish(discipline: str, name: str) -> None:
    """Publish until the process is killed."""
    queue, plain = opened(discipline, name), redis.Redis.from_url(URL)
    for number in itertools.count():
        payload = f"{name}-{number}"
        queue.publish(payload if discipline == "rotation" else {"id": payload})
        plain.rpush("test:published", payload)
        if not number:
            print("started", flush=True)


def consume(discipline: str, name: str) -> None:
    """Process messages until the process is killed. A lease that was lost to a successor is no failure."""
    queue, plain = opened(discipline, name), redis.Redis.from_url(URL)
    print("started", flush=True)
    while True:
        lease = queue.claim(wait=0.2)
        if lease is None:
            if discipline == "reliable":
                queue.reap(timeout=LEASE_S)
            continue
        for message in lease.messages:
            payload = message.payload
            plain.hincrby("test:effects", payload if discipline == "rotation" else payload["id"], 1)
        try:
            queue.ack(lease)
        except rmq_core.LeaseLost:
            plain.incr("test:lost")


def hold(discipline: str, name: str) -> None:
    """Claim a message, and ack it when told; answer what came of that."""
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
    """Claim a batch for a driver, hand it over, and report what came of it."""
    queue = rmq_core.LeasedQueue(URL, name, rmq_core.LeasedConfig(lease=30))
    lease = queue.claim(max_messages=4, lease_id="run", owner="try 1")
    submission = rmq_core.Submission(queue, lease)
    print(json.dumps(submission.handover(rmq_core.RedisSettings.from_url(URL)).environment()), flush=True)
    sys.stdin.readline()
    (submission.poll if hasattr(submission, "poll") else submission.look)()
    print("adopted" if submission.adopted else "not adopted", flush=True)
    sys.stdin.readline()
    try:
        print(submission.finish(), flush=True)
    except rmq_core.RedisMessageQueueError as error:
        print(type(error).__name__, flush=True)
        submission.give_back()


def drive() -> None:
    """Adopt the lease of the environment, and ack it when told."""
    handover = rmq_core.Handover.from_environment()
    queue = rmq_core.LeasedQueue(URL, handover.queue, handover.config)
    lease = queue.adopt(handover.lease_id, owner=handover.owner, if_owner=handover.owner)
    print(lease.count, flush=True)
    sys.stdin.readline()
    queue.ack(lease)
    print("acked", flush=True)
    time.sleep(600)


if not str(rmq_core.__file__).startswith(FOLDER):
    sys.exit(f"{rmq_core.__file__} is not in {FOLDER}")
{"publish": publish, "consume": consume, "hold": hold, "submit": submit, "drive": drive}[ROLE](*REST)
