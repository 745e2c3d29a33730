"""`make demo SERVE=1`: the console on the queues of the demo, until Ctrl-C."""

from __future__ import annotations

import re
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

from example_dags.demo.place import Place
from example_dags.demo.processes import Child
from example_dags.flights import work_items

TRY = "try-the-buttons"
ADDRESS = re.compile(r"http://[\d.:]+/")


def serve(place: Place, queues: dict[str, str]) -> None:
    """Run `rmq serve` until Ctrl-C, and say where to begin. Raises ChildFailed if it ends by itself.

    queues: the name of each orchestrator's queue.
    """
    _begin_work(place)
    log = place.root / "serve.log"
    program = str(Path(sys.executable).parent / "rmq")
    command = [program, "serve", "--url", place.redis_url, "--port", "0", "--allow-changes"]
    with Child(command, {}, log) as console, suppress(KeyboardInterrupt):
        while console.runs() and not ADDRESS.search(log.read_text()):
            time.sleep(0.1)
        if found := ADDRESS.search(log.read_text()):
            print(_guide(place, found[0], queues), flush=True)
            console.wait()
        raise console.failure("ended by itself")
    print("The console and Redis have been stopped.", flush=True)


def _begin_work(place: Place) -> None:
    """Leave a queue in the middle of its work: the items wait, are delayed, are held by a worker, and have failed."""
    items = [dict(item) for item in work_items()]
    with place.queue(TRY) as queue:
        queue.admin.configure(max_deliveries=1)
        queue.publish_many(items[:1000])
        queue.publish_many(items[1000:], delay=timedelta(hours=1))
        for reason in ("TimeoutError: the weather service did not answer", "ValueError: no flights of this day"):
            if failed := queue.claim(max_messages=20, owner="worker-1"):
                queue.nack(failed, reason=reason)
        queue.claim(max_messages=60, owner="worker-2", lease=timedelta(hours=8))


def _guide(place: Place, address: str, queues: dict[str, str]) -> str:
    lines = [f"The console shows the queues of the demo until you press Ctrl-C: {address}"]
    for orchestrator, name in queues.items():
        with place.queue(name) as queue:
            journal = queue.admin.journal().entries
        lease = next((entry.lease_id for entry in journal if entry.event == "claimed"), None)
        message = next((entry.ids[0] for entry in journal if entry.event == "published"), None)
        if lease and message:  # a queue in shards has no journal
            lines += [
                f"{orchestrator:<8} one message, from publish to ack  {_link(address, name, 'why', message)}",
                f"{orchestrator:<8} the lease that held all of them   {_link(address, name, 'leases', lease)}",
            ]
    lines.append(f"{'Buttons':<8} the same items, amid their work   {_link(address, TRY, 'dead')}")
    return "\n".join([*lines, f"For `rmq` in another terminal: export RMQ_URL={place.redis_url}"])


def _link(address: str, *parts: str) -> str:
    return f"{address}#/redis/{'/'.join(quote(part, safe='') for part in parts)}"
