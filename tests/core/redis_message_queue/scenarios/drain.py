"""Before the pod goes, its queue takes nothing new and its worker comes to an end."""

from __future__ import annotations

import sys
import threading

from redis import Redis

from rmq_core import RedisMessageQueue
from rmq_core.errors import QueueDrainedError

client = Redis.from_url("redis://localhost:6379/0", decode_responses=True)
tickets = RedisMessageQueue("tickets", client=client)
tickets.publish("ticket 1")
begun = threading.Event()
finished: list[str | bytes | None] = []


def work() -> None:
    with tickets.process_message() as ticket:
        begun.set()
        finished.append(ticket)
    with tickets.process_message() as nothing:
        assert nothing is None


worker = threading.Thread(target=work)
worker.start()
begun.wait()
assert tickets.drain(timeout=25) is True
worker.join()
assert finished == ["ticket 1"]
try:
    tickets.publish("ticket 2")
except QueueDrainedError as refusal:
    print(refusal, file=sys.stderr)
else:
    raise SystemExit("a drained queue took a message")
client.close()
