"""A worker of the drills: `python -m tests.drills.worker <how> <url> <owner> [lease]` consumes the queue `work`.

`ack` acks all there is and ends. `die` kills itself on the payload "fatal". `nack` fails everything. `whole` fails
whole leases that contain "bad". `hang` claims all there is and never comes back. `late` claims one, does
the work after its lease has ended, and tries to ack it.
"""

from __future__ import annotations

import os
import signal
import sys

from rmq_core import Lease, LeasedConfig, LeasedQueue, LeaseLost

QUEUE = "work"
MAX_DELIVERIES = 3
BATCH = 8
ALL = 1000
JOURNALED = LeasedConfig(max_deliveries=MAX_DELIVERIES, journal=10_000)


def work(how: str, queue: LeasedQueue, owner: str, lease_s: float) -> None:
    """Consume until the queue is empty."""
    most = {"whole": BATCH, "hang": ALL, "late": 1, "die": 1}.get(how, 100)
    while lease := queue.claim(max_messages=most, owner=owner, lease=lease_s):
        handle(how, queue, lease)


def handle(how: str, queue: LeasedQueue, lease: Lease) -> None:
    """Do to a lease what this kind of worker does."""
    payloads = [message.payload for message in lease.messages]
    if how == "die" and "fatal" in payloads:
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "hang":
        print("held", flush=True)
        signal.pause()
    elif how == "nack":
        queue.nack(lease, reason="KeyError: 'carrier' (release 1.4)")
    elif how == "whole" and "bad" in payloads:
        queue.nack(lease, reason="ValueError: a bad row in the batch")
        raise SystemExit(1)
    else:
        settle(how, queue, lease)


def settle(how: str, queue: LeasedQueue, lease: Lease) -> None:
    """Ack a lease; a late worker only when told to, long after its lease has ended."""
    if how == "late":
        print("did", flush=True)
        sys.stdin.readline()
    try:
        queue.ack(lease)
    except LeaseLost:
        print("refused", flush=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    with LeasedQueue(sys.argv[2], QUEUE, JOURNALED) as opened:
        work(sys.argv[1], opened, sys.argv[3], float(sys.argv[4]) if len(sys.argv) > 4 else 300)
