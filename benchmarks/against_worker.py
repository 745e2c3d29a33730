"""One tree of `benchmarks.against`: it imports RMQ from PYTHONPATH, so it may be older than this file."""

from __future__ import annotations

import json
import sys
from functools import partial

from benchmarks.batches import Batches
from benchmarks.jobs_tally import Clock
from benchmarks.loops import CALLS, Loops, some
from benchmarks.rounds import Contender
from rmq_core import LeasedConfig, LeasedQueue, WorkQueue, open_queue

OTHERS = ("reliable", "rotation", "streams", "jobs")
"""The disciplines of which one row measures publish, claim and ack together."""


def main() -> None:
    port, clock, at = int(sys.argv[1]), Clock(int(sys.argv[2])), sys.argv[3]
    loops, batches = Loops(port), Batches(port)
    own = LeasedQueue(loops.client, f"against-{at}", LeasedConfig(max_deliveries=None))
    others = {discipline: open_queue(loops.client, f"against-{discipline}-{at}", discipline) for discipline in OTHERS}
    queues = (loops.queue, loops.unique, batches.queue, batches.unique, own, *others.values())
    own.publish("a")

    def nack() -> None:
        for _ in range(CALLS):
            own.nack(some(own.claim()))

    def release() -> None:
        for _ in range(CALLS):
            own.release(some(own.claim()))

    def work(queue: WorkQueue) -> None:
        for number in range(CALLS):
            queue.publish({"n": number} if queue.discipline == "streams" else str(number))
            queue.ack(some(queue.claim()))

    contenders = [
        *loops.contenders(),
        *batches.contenders(),
        Contender("claim + nack", nack, CALLS),
        Contender("claim + release", release, CALLS),
        *(Contender(f"{name}: publish + claim + ack", partial(work, queue), CALLS) for name, queue in others.items()),
    ]
    named = {each.name: each for each in contenders}
    print(json.dumps(list(named)), flush=True)
    for line in sys.stdin:
        print(json.dumps(_run(named[line.strip()], clock)), flush=True)
    for queue in queues:
        queue.close()


def _run(each: Contender, clock: Clock) -> float:
    if each.before:
        each.before()
    began = clock.now()
    each.run()
    taken = clock.now().since(began)
    if each.after:
        each.after()
    return taken.client_s + taken.server_s


if __name__ == "__main__":
    main()
