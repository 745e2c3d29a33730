"""A message that kills every worker that processes it becomes a dead letter, and takes no other message with it."""

from __future__ import annotations

import itertools
import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from rmq_core import LeasedQueue
from rmq_core.messages import NewMessage
from tests.core.leases import key
from tests.faults import tally
from tests.faults.crew import WARM
from tests.faults.patience import PATIENCE_S
from tests.faults.report import Figure, page
from tests.faults.victim import CONFIG, main
from tests.servers import Server

ALIKE = pytest.mark.nightly(
    "faults/test_crash_loop.py::test_a_crash_loop_of_anonymous_claims_ends_with_one_dead_letter"
)
PAYLOADS = [f"good {number}" for number in range(30)]
PAGE = page(
    "isolation",
    "# A message that kills its workers\n\nHow many leases fail or succeed until all other messages are acked, made"
    " by `make faults`. Each process that meets the message is killed; a retry is another process under the same"
    " lease id.\n",
    "",
    (),
)


@contextmanager
def stocked(
    server: Server, client: redis.Redis, poison: int, count: int = len(PAYLOADS), groups: str | None = None
) -> Iterator[LeasedQueue]:
    """A queue with one message that kills its worker, in one of four groups if it has any."""
    client.flushall()
    payloads = [f"good {number}" for number in range(count)]
    with LeasedQueue(server.url, "q", CONFIG) as queue:
        if groups:
            queue.admin.configure(groups=groups)
        texts = [*payloads[:poison], "poison", *payloads[poison:]]
        queue.publish_many([NewMessage(text, group=f"g{place % 4}") for place, text in enumerate(texts)])
        yield queue


def dies(url: str, *args: str) -> bool:
    """Run a worker once, forked from a process that has imported it; return whether its work killed it."""
    victim = WARM.Process(target=main, args=(url, *args))
    victim.start()
    victim.join(PATIENCE_S)
    status = victim.exitcode
    victim.close()
    assert status in {0, -signal.SIGKILL}
    tally.count("process killed by its work", status == -signal.SIGKILL)
    return status == -signal.SIGKILL


def expire_all(client: redis.Redis, queue: LeasedQueue) -> None:
    """Let the leases of dead holders expire at once."""
    for lease in queue.admin.leases():
        client.zadd(key("leases"), {lease.id: 1}, xx=True)


def drain(url: str, client: redis.Redis, queue: LeasedQueue) -> int:
    """Run one worker after another until nothing is left; return how often one died."""
    deaths = 0
    while sum(queue.stats()[:3]):
        deaths += dies(url, "10")
        assert deaths <= most_deaths(10)
        expire_all(client, queue)
    return deaths


def most_deaths(batch: int) -> int:
    """Return the bound: one failure together, one for each half, and then as many as a message may have by itself."""
    return 2 + math.ceil(math.log2(batch)) + CONFIG.max_deliveries


def check_only_the_poison_died(queue: LeasedQueue) -> None:
    assert queue.stats()[:5] == (0, 0, 0, 0, 1)
    [letter] = queue.admin.dead_letters()
    assert letter.payload == "poison"
    assert {failure.kind for failure in letter.history} == {"expired"}


@pytest.mark.parametrize("groups", [None, *(pytest.param(policy, marks=ALIKE) for policy in ("exclusive", "fair"))])
@pytest.mark.parametrize("poison", [4, pytest.param(0, marks=ALIKE), pytest.param(17, marks=ALIKE)])
def test_a_crash_loop_of_anonymous_claims_ends_with_one_dead_letter(
    own_server: Server, client: redis.Redis, poison: int, groups: str | None
) -> None:
    with stocked(own_server, client, poison, groups=groups) as queue:
        assert drain(own_server.url, client, queue) > CONFIG.max_deliveries
        check_only_the_poison_died(queue)


@pytest.mark.parametrize("poison", [4, pytest.param(0, marks=ALIKE)])
def test_a_crash_loop_on_one_lease_id_ends_with_one_dead_letter_and_spares_its_neighbours(
    own_server: Server, client: redis.Redis, poison: int
) -> None:
    with stocked(own_server, client, poison) as queue:
        deaths = 0
        while dies(own_server.url, "10", "dag/run/task"):
            deaths += 1
            # A lease of several messages is delivered once less than a single message, and counts as one failure.
            assert deaths <= most_deaths(10) * (CONFIG.max_deliveries - 1)
        drain(own_server.url, client, queue)
        check_only_the_poison_died(queue)


def test_all_others_are_done_after_few_runs_whatever_the_retries(
    own_server: Server, client: redis.Redis, *, full_faults: bool
) -> None:
    counts, tries = ((20, 200, 1000), (0, 1, 3)) if full_faults else ((20,), (1,))
    for count, retries in itertools.product(counts, tries):
        with stocked(own_server, client, count // 3, count - 1) as queue:
            runs, bound = runs_until_the_others_are_done(own_server, client, queue, retries), 2 * math.log2(count) + 4
            name = f"{count} messages, {retries} retries, {own_server.name}"
            PAGE.figures.append(Figure(name, f"{runs} runs", f"≤ {bound:.1f}", runs <= bound))
            assert runs <= bound, name
            drain(own_server.url, client, queue)
            check_only_the_poison_died(queue)


def runs_until_the_others_are_done(server: Server, client: redis.Redis, queue: LeasedQueue, retries: int) -> int:
    """A run is a lease id, under which a process works that may be restarted."""
    for runs in itertools.count():
        ready = queue.backlog().ready
        if {message.payload for message in queue.admin.peek(ready or 1)} <= {"poison"}:
            return runs
        for _ in range(retries + 1):
            if not dies(server.url, str(len(PAYLOADS) + ready), f"run {runs}"):
                break
        expire_all(client, queue)
    raise AssertionError


def test_a_crash_loop_on_a_lease_of_one_message_delivers_it_as_often_as_allowed(
    own_server: Server, client: redis.Redis
) -> None:
    with stocked(own_server, client, 0) as queue:
        lives = [dies(own_server.url, "1", "dag/run/task") for _ in range(CONFIG.max_deliveries + 1)]
        assert lives == [True] * CONFIG.max_deliveries + [False]
        assert [letter.payload for letter in queue.admin.dead_letters()] == ["poison"]
        assert queue.stats()[:5] == (29, 0, 0, 0, 1)
        assert queue.settled("dag/run/task").acked == 1
