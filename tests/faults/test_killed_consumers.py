"""Processes are killed at random while they work: every message is processed, none is settled by a stale holder.

In a queue with groups, no group has more holders than it may, and no rate is exceeded.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis

from rmq_core import LeasedQueue
from rmq_core.messages import NewMessage
from tests.core.leases import key
from tests.faults import holders, tally
from tests.faults.consumer import CONFIG, LEASE_S
from tests.faults.crew import Member
from tests.faults.holders import Held, group_of
from tests.faults.patience import PATIENCE_S, eventually
from tests.servers import Server

CONSUMERS = 4
GROUPS = 8
RATES = {"rate": "600/1s burst 30", "group_rate": "150/1s burst 10"}
ALIKE = pytest.mark.nightly("faults/test_killed_consumers.py::test_killed_consumers_keep_what_groups_promise")


class Crew:
    """Processes in some roles; a killed one is replaced by one of another flavour, with a log of its own."""

    def __init__(self, ends: ExitStack, url: str, folder: Path, roles: list[str]) -> None:
        self.ends, self.url, self.folder, self.roles = ends, url, folder, roles
        self.numbers = itertools.count()
        self.members = [self.hire(role) for role in roles]

    def hire(self, role: str) -> Member:
        number = next(self.numbers)
        flavour = "sync" if number % 2 else "async"
        log = self.folder / role / str(number)
        log.parent.mkdir(exist_ok=True)
        more = {"producer": [str(log), f"p{number}"], "consumer": [str(log)]}.get(role, [])
        return self.ends.enter_context(Member(role, flavour, self.url, *more))

    def kill_one(self) -> None:
        place = random.randrange(len(self.members))
        self.members[place].kill()
        self.members[place] = self.hire(self.roles[place])

    def dismiss(self, role: str) -> None:
        """Kill those in a role, and replace none."""
        for place, member in enumerate(self.members):
            if self.roles[place] == role:
                member.kill()


def leases(folder: Path) -> list[Held]:
    """Return what the consumers' logs say, and count refusals."""
    found = holders.leases(holders.records(folder / "consumer"), int(1000 * LEASE_S))
    tally.count("settle tried by a stale holder, refused", sum(held.ended == "stale" for held in found))
    return found


def test_killed_consumers_lose_no_message_and_no_stale_holder_settles_one(
    own_server: Server, client: redis.Redis, tmp_path: Path, *, full_faults: bool
) -> None:
    total, kills = (20_000, 60) if full_faults else (3_000, 12)
    sent = [str(number) for number in range(total)]
    with ExitStack() as ends, LeasedQueue(own_server.url, "q", CONFIG) as queue:
        crew = Crew(ends, own_server.url, tmp_path, ["consumer"] * CONSUMERS)
        for part in range(kills):
            queue.publish_many(sent[part * total // kills : (part + 1) * total // kills])
            time.sleep(random.uniform(0.1, 0.4))
            crew.kill_one()
        eventually(lambda: not sum(queue.stats()[:3]) and not client.zcard(key("leases")))
        assert queue.stats().dead == 0
    held = leases(tmp_path)
    holders.check_ends(held, sent, [])
    assert any(lease.ended == "stale" for lease in held), "the refusals were not tried"


class Publisher:
    """Publishes parts of a publication that stays open meanwhile. `sent` in order; `dead` when all is done."""

    def __init__(self, queue: LeasedQueue) -> None:
        self.queue, self.sent, self.numbers = queue, list[str](), itertools.count()
        queue.open_publication("all")

    def publish(self, count: int) -> None:
        """Publish messages to all groups; a few are poison, and a few expire soon."""
        for expires, share in ((None, 0.9), (0.2, 0.1)):
            texts = [self._text() for _ in range(round(count * share))]
            new = [NewMessage(text, group=group_of(text)) for text in texts]
            report = self.queue.publish_many(new, publication="all", expires=expires)
            assert report.accepted == len(texts)
            self.sent += texts

    def _text(self) -> str:
        number = next(self.numbers)
        return f"g{random.randrange(GROUPS)}/{number}{'-poison' if number % 97 == 50 else ''}"

    def check(self) -> list[str]:
        """Return the dead letters; the publication has ended, and its counts are theirs and that of what was acked."""
        dead = [str(message.payload) for message in self.queue.admin.dead_letters(len(self.sent))]
        report = self.queue.publication("all", wait=PATIENCE_S)
        assert report.done
        assert report[1:7] == (len(self.sent), 0, 0, len(self.sent) - len(dead), len(dead), 0)
        return dead


@pytest.mark.parametrize(
    ("policy", "most"),
    [("exclusive", 1), pytest.param("concurrent 2", 2, marks=ALIKE), pytest.param("fair", 99, marks=ALIKE)],
)
def test_killed_consumers_keep_what_groups_promise(
    own_server: Server, client: redis.Redis, tmp_path: Path, policy: str, most: int, *, full_faults: bool
) -> None:
    total, kills = (6_000, 60) if full_faults else (400, 4)
    with ExitStack() as ends, LeasedQueue(own_server.url, "q", CONFIG) as queue:
        queue.admin.configure(groups=policy, max_deliveries=4, dedup_until="settled", **RATES)
        crew, publisher = Crew(ends, own_server.url, tmp_path, ["consumer"] * CONSUMERS), Publisher(queue)
        unique = ends.enter_context(publishing_again(own_server.url))
        ended = ends.enter_context(waiting(queue))
        for _ in range(kills):
            publisher.publish(total // kills)
            time.sleep(random.uniform(0.1, 0.4))
            crew.kill_one()
        unique.over.set()
        assert not ended.done()
        queue.close_publication("all")
        eventually(lambda: not sum(queue.stats()[:3]) and not client.zcard(key("leases")))
        assert ended.result(PATIENCE_S), "the end of the publication was told to nobody"
        dead = publisher.check()
        unique.check(queue, held := leases(tmp_path), dead)
        holders.check_nothing_is_left(client, queue)
    sent = [*publisher.sent, *unique.accepted]
    holders.check_ends(held, sent, dead)
    holders.check_holders(held, most)
    holders.check_rates(held, RATES)
    if policy == "exclusive":
        holders.check_order(held, sent, dead)


@contextmanager
def waiting(queue: LeasedQueue) -> Iterator[Future[bool]]:
    """Wait for the end of the publication, in a thread."""
    with ThreadPoolExecutor() as threads:
        yield threads.submit(lambda: queue.publication("all", wait=PATIENCE_S).done)


class Unique:
    """Publishes with a few keys. accepted: the messages, and when; refused: the message that had the key, and when."""

    KEYS = 3

    def __init__(self) -> None:
        self.over = threading.Event()
        self.accepted: dict[str, int] = {}
        self.refused: list[tuple[str, int]] = []

    def publish(self, url: str) -> None:
        latest: dict[str, str] = {}
        with LeasedQueue(url, "q", CONFIG) as queue:
            for number in itertools.count():
                if self.over.is_set():
                    return
                name = f"u{number % self.KEYS}"
                text, began_ms = f"{name}/{number}", time.time_ns() // 1_000_000
                if queue.publish(text, dedup_key=name, group=name).accepted:
                    self.accepted[text] = time.time_ns() // 1_000_000
                    latest[name] = text
                else:
                    self.refused.append((latest[name], began_ms))
                time.sleep(0.01)

    def check(self, queue: LeasedQueue, held: list[Held], dead: list[str]) -> None:
        """A key was taken exactly while its message was neither acked nor a dead letter."""
        last = {payload: lease for lease in held for payload in lease.payloads}
        before: dict[str, str] = {}
        for text, done_ms in self.accepted.items():
            if (old := before.get(group_of(text), "")) and old not in dead:
                assert last[old].end_ms <= done_ms, f"{text} was accepted while {old} was not done"
            before[group_of(text)] = text
        for text, began_ms in self.refused:
            if text not in dead and last[text].ended:
                assert last[text].told_ms >= began_ms, f"a duplicate of {text} was refused after that was done"
        assert self.refused
        assert all(queue.admin.remembered(f"u{number}") is None for number in range(self.KEYS))


@contextmanager
def publishing_again(url: str) -> Iterator[Unique]:
    """Publish in a thread, until the end at the latest."""
    unique = Unique()
    with ThreadPoolExecutor() as threads:
        working = threads.submit(unique.publish, url)
        try:
            yield unique
        finally:
            unique.over.set()
            working.result(PATIENCE_S)


def forsaken(client: redis.Redis) -> list[bytes]:
    """Let consumers go on at once with changes that nobody goes on with: they leave these alone for a while."""
    found = [name for name in client.zrange(key("leases"), 0, -1) if name.startswith(b"~+")]
    for name in found:
        client.zadd(key("leases"), {name: 1}, xx=True)
    return found


def test_a_policy_changes_while_all_who_use_the_queue_are_killed(
    own_server: Server, client: redis.Redis, tmp_path: Path, *, full_faults: bool
) -> None:
    roles = ["consumer", "consumer", "producer", "producer", "regrouper"]
    with ExitStack() as ends, LeasedQueue(own_server.url, "q", CONFIG) as queue:
        crew = Crew(ends, own_server.url, tmp_path, roles)
        for _ in range(120 if full_faults else 8):
            time.sleep(random.uniform(0.1, 0.3))
            crew.kill_one()
        crew.dismiss("producer")
        crew.dismiss("regrouper")
        eventually(lambda: not forsaken(client) and not sum(queue.stats()[:3]) and not client.zcard(key("leases")))
        assert queue.stats().dead == 0
        queue.admin.configure(groups="exclusive")
        holders.check_nothing_is_left(client, queue)
    lines = [line.split(" ") for log in (tmp_path / "producer").iterdir() for line in log.read_text().splitlines()]
    sent, stored = ({text for verb, *texts in lines if verb == word for text in texts} for word in ("sends", "stored"))
    held = leases(tmp_path)
    delivered = {payload for lease in held for payload in lease.payloads}
    assert delivered <= sent
    holders.check_ends(held, stored | delivered, [])
