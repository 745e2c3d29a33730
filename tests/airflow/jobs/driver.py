"""A driver that does one thing: `driver.py BEHAVIOUR MARKER`. It uses RMQ as a Spark job would."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from rmq_core import Lease, LeasedQueue, RedisSettings

HANDOVER = json.loads(os.environ["RMQ_HANDOVER"])


def open_queue() -> LeasedQueue:
    credentials = {name: os.environ.get(f"RMQ_{name.upper()}") for name in ("username", "password")}
    return LeasedQueue(RedisSettings.from_url(os.environ["RMQ_URL"], **credentials), HANDOVER["queue"])


def adopt(queue: LeasedQueue) -> Lease:
    return queue.adopt(HANDOVER["lease_id"], if_owner=HANDOVER["owner"])


def touch(marker: Path) -> None:
    write(marker, str(os.getpid()))


def write(marker: Path, text: str) -> None:
    """Write the marker atomically: a process that sees it can read it."""
    scratch = marker.with_suffix(".new")
    scratch.write_text(text)
    scratch.rename(marker)


def adopt_and_ack(marker: Path) -> None:
    with open_queue() as queue:
        lease = adopt(queue)
        write(marker, json.dumps([message.payload for message in queue.messages(lease)]))
        queue.ack(lease)


def adopt_and_fail(marker: Path) -> None:
    with open_queue() as queue:
        adopt(queue)
    touch(marker)
    sys.exit(3)


def adopt_and_leave(marker: Path) -> None:
    with open_queue() as queue:
        adopt(queue)
    touch(marker)


def adopt_and_work(marker: Path) -> None:
    with open_queue() as queue, queue.hold(adopt(queue)):
        work(marker)


def wait_for_go(marker: Path) -> None:
    touch(marker)
    while not marker.with_suffix(".go").exists():
        time.sleep(0.05)


def adopt_wait_ack(marker: Path) -> None:
    with open_queue() as queue:
        lease = adopt(queue)
        with queue.hold(lease):
            wait_for_go(marker)
        queue.ack(lease)


def die_once(marker: Path) -> None:
    if marker.exists():
        adopt_and_ack(marker)
        return
    with open_queue() as queue:
        lease = adopt(queue)
        write(marker, json.dumps([message.id for message in queue.messages(lease)]))
    os.kill(os.getpid(), signal.SIGKILL)


def work(marker: Path) -> None:
    touch(marker)
    time.sleep(600)


def work_deaf(marker: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    work(marker)


def tell_secrets(marker: Path) -> None:
    print("the password is", os.environ["RMQ_PASSWORD"])
    wait_for_go(marker)


def nap(marker: Path) -> None:
    touch(marker)
    time.sleep(1)


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))
