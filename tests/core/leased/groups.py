"""An oracle of a queue whose messages wait in groups: random calls of several clients, and what must always hold."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import redis

from rmq_core import LeasedConfig, LeaseLost
from rmq_core.envelope.codec import message_of, split
from rmq_core.envelope.export_record import group_of, is_isolated
from rmq_core.errors import ConfigurationError
from rmq_core.events import Operation, QueueEvent
from rmq_core.messages import Lease, NewMessage
from rmq_core.policy import Rate, seconds
from tests.core.leases import engine_of, key, lose_answer
from tests.core.worlds import World

NAMES = ["a", "b", "ü ", "d", "e"]
ENDED = (":grouped", ":turns", ":resting", ":expiring", ":overdue")
POLICIES = ["fair", "exclusive", "concurrent 2", 'fair {"a": 5, "b": 0.5}', 'exclusive {"d": 3}']


_LEASE_MS = 3_600_000


class Claims:
    """When messages were claimed, from the whole queue and from each group, in ms of the server's clock."""

    def __init__(self, **rates: str) -> None:
        self.limits = {name: Rate.of(text) for name, text in rates.items()}
        self.at: dict[str | None, list[tuple[int, int]]] = defaultdict(list)

    def add(self, at_ms: int, groups: Iterable[str]) -> None:
        """Record a claim of one message of each of these groups."""
        counted = Counter(groups)
        for group, count in [(None, counted.total()), *counted.items()]:
            self.at[group].append((at_ms, count))

    def excess(self) -> float:
        """Return by how many messages the worst window of any length exceeds its rate; negative if none does."""
        worst = -float("inf")
        for group, claims in self.at.items():
            rate = self.limits.get("rate" if group is None else "group_rate")
            if rate is None or group == "":
                continue
            per_ms = rate.count / seconds("per", rate.per) / 1000
            most = -float("inf")  # of the bucket's level before a claim, over those until now: one pass for all windows
            done = 0
            for at_ms, count in sorted(claims):
                most = max(most, at_ms * per_ms - done)
                done += count
                worst = max(worst, done - at_ms * per_ms + most - rate.burst - per_ms)  # times are whole milliseconds
        return worst


class Groups:
    """Calls of a few clients. order: the unfinished messages of each group. leases: what each lease holds, by id.

    expiring: whether some messages expire, some at once, and some replies get lost. told: the messages of which a
    client was told that they expired. replacing: whether a message replaces one with its key that waits, and some
    replies get lost.
    """

    def __init__(
        self,
        world: World,
        seed: str,
        policy: str | None,
        *,
        counted: bool = True,
        expiring: bool = False,
        replacing: bool = False,
        **rates: str,
    ) -> None:
        self.chance, self.world = random.Random(seed), world
        self.expiring, self.replacing = expiring, replacing
        self.claims = Claims(**rates)
        config = LeasedConfig(lease=_LEASE_MS / 1000, max_deliveries=4)
        self.told: list[str | None] = []
        self.queues = [self.open(config) for _ in range(3)]
        self.policy: str | None = None
        self.leases: dict[str, tuple[Lease, dict[str, str]]] = {}
        self.order: dict[str, list[str]] = defaultdict(list)
        self.number = 0
        self.counted = counted  # whether messages belong to publications
        self.published: dict[str, set[str]] = defaultdict(set)
        self.ids: dict[str, str] = {}
        self.cancelled: set[str] = set()
        self.keys: dict[str, str] = {}  # of unfinished messages that have a deduplication key
        self.key_of: dict[str, str] = {}  # of all messages that ever had one
        self.replaced = 0
        self.steady = True  # the present policy has kept the order from the start
        self.set_policy(policy, **rates)

    def open(self, config: LeasedConfig) -> Any:
        return self.world.queue(config=config, on_event=self.listen)

    @property
    def queue(self) -> Any:
        queue = self.chance.choice(self.queues)
        if (self.expiring or self.replacing) and self.chance.random() < 0.1:
            lose_answer(queue, redis.ConnectionError("the reply got lost"))
        return queue

    def listen(self, event: QueueEvent) -> None:
        if event.operation == Operation.DEAD and event.reason == "expired while it waited":
            self.told.append(event.message_id)

    @property
    def expires(self) -> float | None:
        """When the next message expires: never, soon, or after the test."""
        return self.chance.choice([None, 0.002, 0.02, 0.1, 1000]) if self.expiring and self.policy else None

    @property
    def exclusive(self) -> bool:
        return (self.policy or "").startswith("exclusive")

    def run(self, steps: int) -> None:
        """Do random calls, then settle everything."""
        calls = [self.publish] * 5 + [self.claim] * 6 + [self.ack] * 4 + [self.some] * 3
        calls += [self.publish_unique] * 2
        calls += [self.nack, self.release, self.expire, self.claim_next, self.cancel, self.redrive]
        for step in range(steps):
            self.chance.choice(calls)()
            if step % 5 == 0:
                self.audit()
        self.audit()
        self.finish()

    def publish_unique(self) -> None:
        """Publish with a key, which is accepted unless an unfinished message has it, or replaces that."""
        if not self.policy:
            return
        self.done({str(message.payload) for message in self.queue.admin.dead_letters(10_000)})
        dedup_key, new = self.chance.choice("klmnop"), []
        for _ in range(self.chance.choice([1, 2, 3])):
            group = self.chance.choice("aaab")
            publication = self.chance.choice([None, "one", "ü 2"]) if self.counted else None
            priority = self.chance.choice([None, None, None, 3])
            # A delayed message joins the end of its group when it is due.
            delay = 0.001 if not self.exclusive and self.chance.random() < 0.1 else None
            new.append(
                NewMessage(
                    f"{group}-{self.number}", dedup_key=dedup_key, group=group, priority=priority,
                    publication=publication, delay=delay, expires=self.expires,
                )
            )  # fmt: skip
            self.number += 1
        lines = self.lines()
        expected = [self.add_unique(message, lines) for message in new]
        how, ids = self.chance.choice(["one by one", "together", "staged"]), []
        if how == "together":
            report = self.queue.publish_many(new)
            ids = report.ids
            found = [each is not None for each in ids]
            assert report.replaced == expected.count("replaced"), (report, expected)
        elif how == "one by one":
            queue, found = self.queue, []
            for at, message in enumerate(new):
                options = {name: value for name, value in message._asdict().items() if name not in {"payload", "id"}}
                done = queue.publish(message.payload, **options)
                ids.append(done.id if done.accepted else None)
                found.append(done.accepted)
                assert done.replaced == (expected[at] == "replaced"), (done, expected)
        else:
            self.queue.publish_staged([self.queue.stage(new)])
            found = [verdict != "duplicate" for verdict in expected]
        assert found == [verdict != "duplicate" for verdict in expected], (how, expected, new)
        for message, message_id in zip(new, ids, strict=False):
            if self.key_of.get(str(message.payload)) and message.payload in self.keys:
                self.ids[str(message.payload)] = message_id
        after = self.lines()
        for message in new:
            if (text := str(message.payload)) in self.keys and not message.delay:
                assert after[text] == lines[text] or lines[text][1] is None, (how, text)

    def lines(self) -> dict[str, tuple[bytes, bytes | None]]:
        """Return the line of each message that waits in a group and is not isolated, and its number there."""
        client: Any = self.world.client
        found = {}
        for field, envelope in client.hgetall(key("grouped")).items():
            line, _, number = field.rpartition(b"\0")
            if not group_of(split(envelope).history):
                found[str(message_of(envelope).payload)] = (line, number)
        return found

    def add_unique(self, message: NewMessage, lines: dict[str, tuple[bytes, bytes | None]]) -> str:
        """Publish a message that has a key in the model; return what the queue has to report."""
        text, dedup_key = str(message.payload), message.dedup_key
        line = str(message.group).encode()
        if message.priority and "fair" in str(self.policy):
            line += b"\x02%d" % message.priority
        holder = next((other for other, taken in self.keys.items() if taken == dedup_key), None)
        replaces = self.replacing and not message.delay and holder in lines and lines[holder][0] == line
        if holder is not None and not replaces:
            return "duplicate"
        if message.publication:
            self.published[message.publication].add(text)
        place = self.order[str(message.group)]
        if holder is None:
            place.append(text)
            if not message.delay:
                lines[text] = (line, None)
        else:
            place[place.index(holder)] = text
            lines[text] = lines.pop(holder)
            self.cancelled.add(holder)
            del self.keys[holder]
            self.ids.pop(holder, None)
            self.replaced += 1
        self.keys[text] = self.key_of[text] = str(dedup_key)
        return "accepted" if holder is None else "replaced"

    def publish(self) -> None:
        group, count = self.chance.choice([*NAMES, None]), self.chance.choice([1, 1, 3, 70])
        texts = [f"{group}-{self.number + at}" for at in range(count)]
        self.number += count
        self.order[group or ""] += texts
        publication = self.chance.choice([None, "one", "ü 2"]) if self.counted and self.policy else None
        if publication:
            self.published[publication] |= set(texts)
        if count == 1 and self.chance.random() < 0.5:
            priority = self.chance.choice([None, 0, 9])
            done = self.queue.publish(
                texts[0], group=group, priority=priority, publication=publication, expires=self.expires
            )
            self.ids[texts[0]] = done.id
        else:
            priority = self.chance.choice([None, None, 3])
            report = self.queue.publish_many(
                texts, group=group, priority=priority, publication=publication, expires=self.expires
            )
            self.ids.update(zip(texts, report.ids, strict=True))

    def cancel(self) -> None:
        text = self.chance.choice(sorted(self.ids)) if self.ids else ""
        if text and self.queue.admin.cancel(self.ids[text]):
            assert not any(text in held.values() for _, held in self.leases.values())
            self.cancelled.add(text)
            self.done({text})

    def redrive(self) -> None:
        letters = [str(message.payload) for message in self.queue.admin.dead_letters(10_000)]
        self.done(set(letters))
        taken = [*self.keys.values(), *(self.key_of[text] for text in letters if text in self.key_of)]
        if len(taken) != len(set(taken)):  # a redriven message takes its key, whoever has it
            return
        assert self.queue.admin.redrive() == len(letters)
        for text in reversed(letters):
            if self.policy and text in self.key_of:
                self.keys[text] = self.key_of[text]
            self.order[text.rpartition("-")[0].replace("None", "")].append(text)

    def claim(self) -> None:
        now, chosen = self.now(), self.chosen()
        lease = self.queue.claim(max_messages=self.chance.choice([1, 2, 10, 150]), groups=chosen)
        self.check_choice(chosen, lease)
        if lease is not None:
            self.take(lease, now)

    def now(self) -> int:
        seconds, micros = self.world.client.time()
        return seconds * 1000 + micros // 1000

    def chosen(self) -> list[str] | None:
        """Return some groups for a claim that takes only from these."""
        if self.policy is None or self.claims.limits or self.chance.random() < 0.5:
            return None
        return self.chance.sample([*NAMES, ""], self.chance.choice([1, 2, 4]))

    def check_choice(self, chosen: list[str] | None, lease: Lease | None) -> None:
        """A claim from some groups gets messages of no other, and gets some if one of these can be claimed."""
        if chosen is None:
            return
        if lease is not None:
            found = {message.group for message in self.queues[0].messages(lease)}
            assert found <= set(chosen), (found, chosen)
            return
        client: Any = self.world.client
        for name in [] if client.exists(key("held_before")) else client.hgetall(key("groups")):
            lines = [client.zscore(key(place), name) for place in ("turns", "suspects")]
            assert re.split(r"[\x01\x02]", name.decode())[0] not in chosen or lines == [None, None], (name, chosen)

    def take(self, lease: Lease, now: int) -> None:
        """Check what a claim got that was sent at `now`."""
        queue = self.queues[0]
        held = {message.id: str(message.payload) for message in queue.messages(lease)}
        if self.policy:
            assert all(int(message.expires) >= now for message in queue.messages(lease) if message.expires)
        assert held
        assert lease.complete or lease.count >= 100
        by_group = defaultdict(list)
        for text in held.values():
            by_group[text.rpartition("-")[0].replace("None", "")].append(text)
        others = {t for _, texts in self.leases.values() for t in texts.values()}
        assert not others & set(held.values())
        dead = {str(message.payload) for message in queue.admin.dead_letters(10_000)}
        self.done(dead)
        for group, texts in by_group.items():
            others_of = [t for t in others if t in set(self.order[group])]
            if self.exclusive and group and self.steady:
                assert not others_of, f"two leases hold {group!r}"
                assert texts == self.order[group][: len(texts)], f"order of {group!r}"
            assert set(texts) <= set(self.order[group])
        self.leases[lease.id] = (lease, held)
        groups = (text.rpartition("-")[0].replace("None", "") for text in held.values())
        self.claims.add(lease.deadline_ms - _LEASE_MS, groups)

    def one(self) -> tuple[Lease, dict[str, str]] | None:
        if not self.leases:
            return None
        return self.leases[self.chance.choice(sorted(self.leases))]

    def done(self, texts: set[str]) -> None:
        for text in texts & self.keys.keys():
            del self.keys[text]
        for group in self.order:
            if texts & set(self.order[group]):
                self.order[group] = [text for text in self.order[group] if text not in texts]

    def ack(self) -> None:
        if found := self.one():
            lease, held = found
            assert self.queue.ack(lease).settled == len(held)
            self.done(set(held.values()))
            del self.leases[lease.id]

    def claim_next(self) -> None:
        if found := self.one():
            lease, held = found
            now, chosen = self.now(), self.chosen()
            after = self.queue.claim_next(ack=lease, max_messages=self.chance.choice([1, 5]), groups=chosen)
            self.done(set(held.values()))
            del self.leases[lease.id]
            self.check_choice(chosen, after)
            if after is not None:
                self.take(after, now)

    def some(self) -> None:
        """Settle some messages of a lease."""
        if not (found := self.one()):
            return
        lease, held = found
        queue, verb = self.queues[0], self.chance.choice(["ack", "nack", "release", "later"])
        chosen = [each for each in queue.messages(lease) if self.chance.random() < 0.4]
        self.chance.shuffle(chosen)
        if not chosen:
            return
        if verb == "later":
            queue.nack(lease, messages=chosen, delay=0.001)
            self.steady = self.steady and self.exclusive
        else:
            getattr(queue, verb)(lease, messages=chosen)
        for each in chosen:
            text = held.pop(each.id)
            if verb == "ack":
                self.done({text})
        if not held:
            del self.leases[lease.id]

    def nack(self) -> None:
        if found := self.one():
            lease, _ = found
            self.queue.nack(lease)
            del self.leases[lease.id]

    def release(self) -> None:
        if found := self.one():
            lease, _ = found
            self.queue.release(lease)
            del self.leases[lease.id]

    def expire(self) -> None:
        if found := self.one():
            lease, _ = found
            self.world.client.zadd(key("leases"), {lease.id: 1}, xx=True)
            self.queue.backlog()
            del self.leases[lease.id]
            try:
                self.queue.ack(lease)
            except LeaseLost:
                return
            raise AssertionError("a lost lease was acked")

    def set_policy(self, policy: str | None, **rates: str) -> None:
        """Change the policy on the live queue, and the rates."""
        queue = self.queue
        wanted = {"groups": policy, "rate": None, "group_rate": None, **rates}
        try:
            reset = {"reset": "groups,dedup_until,on_duplicate,rate,group_rate"}
            unique = {"dedup_until": "settled", "on_duplicate": "replace" if self.replacing else "drop"}
            queue.admin.configure(**(reset if policy is None else {**wanted, **unique}))
        except ConfigurationError as error:
            if "has not ended" not in str(error):
                raise
            # Where messages expire, the last of them may have done so since.
            assert self.expiring or any(not self.queue.publication(name).done for name in self.published)
            return
        if policy is None:  # a plain queue does not know which keys its leases have
            for text in {text for _, texts in self.leases.values() for text in texts.values()} & self.keys.keys():
                del self.keys[text]
        for each in self.queues:  # which else follow within a second
            engine_of(each).look_at = 0
            each.stats()
        if not policy or not self.policy or ("fair" in policy) != ("fair" in self.policy):
            self.published.clear()  # counts end where messages wait in one line for a moment
        assert self.claims.excess() <= 0
        self.claims = Claims(**rates)
        # Only a policy that was exclusive throughout has kept the order of what is held.
        self.steady = self.number == 0
        self.policy = policy

    def audit(self) -> None:
        """Compare the stored records with the stored messages and leases."""
        client: Any = self.world.client
        if client.type(key("ready")) != b"string":
            return
        for _ in range(20):  # isolated messages that came from one line are moved to their groups, 500 at a time
            if client.zcount(key("delayed"), "-inf", "(0"):
                self.queue.backlog()
        records = client.hgetall(key("groups"))
        line = [float(word) for word in records.pop(b"\0", b"0 0 0").split()]
        counts: dict[bytes, int] = defaultdict(int)
        expiring: dict[bytes, float] = {}
        for field, envelope in client.hgetall(key("grouped")).items():
            group, _, number = field.rpartition(b"\0")
            counts[group] += 1
            if until := message_of(envelope).expires:
                expiring[b"%d%b" % (5 * 10**14 + int(number), group)] = float(until)
        assert dict(client.zrange(key("expiring"), 0, -1, withscores=True)) == expiring
        places: dict[bytes, list[bytes]] = defaultdict(list)
        for place, name in ((b"t", "turns"), (b"s", "suspects"), (b"r", "resting")):
            for member in client.zrange(key(name), 0, -1):
                places[member].append(place)
        holders: dict[bytes, int] = defaultdict(int)
        for lease_id in client.zrange(key("leases"), 0, -1):
            for name in client.hkeys(key(f"holds:{lease_id.decode()}")):
                holders[name] += not name.startswith(b"\1")
        claimable = 0
        for name, record in records.items():
            place, first, end, count, active, _, _, _ = record.split()
            assert int(count) == counts[name], (name, record)
            assert int(active) == holders[name], (name, record)
            assert places[name] == ([place] if int(count) else []), (name, record, places[name])
            assert int(first) + int(count) <= int(end)
            claimable += int(count) if place in b"ts" else 0
        assert counts.keys() | places.keys() | {name for name, held in holders.items() if held} <= records.keys()
        assert line[1:] == [claimable, sum(counts.values())]
        self.audit_isolated(client.hgetall(key("grouped")).values())
        self.audit_publications()
        assert self.claims.excess() <= 0

    def audit_isolated(self, waiting: Iterable[bytes]) -> None:
        """Each isolated message is on one page; a small page goes on where the one before ended."""
        browse, seen = self.queue.admin.browse, list[str]()
        while page := browse("isolated", len(seen), 7).messages:
            seen += [message.id for message in page]
        assert sorted(seen) == sorted(message_of(each).id for each in waiting if is_isolated(each))
        assert self.queue.stats().isolated == len(seen)

    def audit_publications(self) -> None:
        held = {text for _, texts in self.leases.values() for text in texts.values()}
        for name, texts in self.published.items():
            found = self.queue.publication(name)
            dead = {str(message.payload) for message in self.queue.admin.dead_letters(10_000)}
            self.done(dead)
            unfinished = {text for texts in self.order.values() for text in texts}
            leased, gone = len(texts & held), len(texts & self.cancelled)
            waiting, died = len(texts & unfinished) - leased, len(texts & dead)
            acked = len(texts) - leased - waiting - died - gone
            assert found[:7] == (name, len(texts), waiting, leased, acked, died, gone), found
            assert found.done == (waiting + leased == 0)

    def finish(self) -> None:
        """Everything that was published is acked or a dead letter, and nothing is left behind."""
        for lease, _ in self.leases.values():
            self.queue.release(lease)
        self.leases.clear()
        queue, left = self.queues[0], set()
        self.wait_for_delayed(queue)
        for _ in range(10_000):
            now = self.now()
            lease = queue.claim(max_messages=100, wait=1 if self.claims.limits else 0.05)
            if lease is None:
                break
            self.take(lease, now)
            left |= {str(message.payload) for message in queue.messages(lease)}
            queue.ack(lease)
            self.done(set(self.leases.pop(lease.id)[1].values()))
        dead = {str(message.payload) for message in queue.admin.dead_letters(10_000)}
        self.done(dead)
        assert not any(self.order.values()), self.order
        assert queue.stats()[:4] == (0, 0, 0, 0)
        letters = queue.admin.dead_letters(10_000)
        expired = [each.id for each in letters if each.history[-1].kind == "unclaimed"]
        assert set(expired) <= set(self.told)
        assert len(self.told) == len(set(self.told))
        late = [each for each in letters if each.id in expired]
        assert all(each.history[-1].at.timestamp() * 1000 >= int(each.expires) for each in late)
        self.audit()
        names = {name.decode() for name in self.world.client.scan_iter(key("*"))}
        assert not {name for name in names if ":holds:" in name or name.endswith(ENDED)}

    def wait_for_delayed(self, queue: Any) -> None:
        for name in ("delayed", "resting"):
            client: Any = self.world.client
            for member, score in client.zrange(key(name), 0, -1, withscores=True):
                if 0 <= score < float("inf"):
                    client.zadd(key(name), {member: 1})
        queue.backlog()
