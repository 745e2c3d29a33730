"""A driver in plain Python: `driver.py BEHAVIOUR SEEN` records its input in SEEN, then behaves as told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rmq_core import Lease, LeasedQueue, RedisSettings, embedded

HANDOVER = json.loads(os.environ["RMQ_HANDOVER"])
FOR_EVER_S = 600


@contextmanager
def opened() -> Iterator[LeasedQueue]:
    credentials = {name: os.environ.get(f"RMQ_{name.upper()}") for name in ("username", "password")}
    settings = RedisSettings.from_url(os.environ["RMQ_URL"], **credentials)
    with LeasedQueue(settings, HANDOVER["queue"]) as queue:
        yield queue


@contextmanager
def adopted() -> Iterator[tuple[LeasedQueue, Lease]]:
    with opened() as queue:
        lease = queue.adopt(HANDOVER["lease_id"], if_owner=HANDOVER["owner"])
        note(payloads=[message.payload for message in queue.messages(lease)])
        time.sleep(1.5)  # longer than the submitter takes to check
        yield queue, lease


def note(**more: object) -> None:
    with Path(sys.argv[2]).open("a") as seen:
        seen.write(json.dumps({"pid": os.getpid(), "command": sys.argv, **HANDOVER, **more}) + "\n")


def succeed() -> None:
    note()


def fail() -> None:
    note()
    sys.exit(3)


def adopt() -> None:
    with adopted() as (queue, lease):
        queue.ack(lease)


def adopt_and_fail() -> None:
    with adopted():
        sys.exit(3)


def adopt_and_die() -> None:
    with adopted():
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_and_forget() -> None:
    with adopted():
        return


def hang() -> None:
    """Start a child, as spark-submit does, and ignore SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", str(FOR_EVER_S)])
    note(child=child.pid)
    time.sleep(FOR_EVER_S)


def be_robbed() -> None:
    """Another owner takes the lease over while the driver works."""
    with opened() as queue:
        queue.adopt(HANDOVER["lease_id"], owner="somebody else")
    note()
    time.sleep(FOR_EVER_S)
    note()


def break_redis() -> None:
    note()
    embedded.stop(os.environ["RMQ_URL"].removeprefix("embedded://"))
    sys.exit(3)


if __name__ == "__main__":
    behaviour: Callable[[], None] = globals()[sys.argv[1]]
    behaviour()
