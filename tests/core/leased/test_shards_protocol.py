"""Random programs on a queue in shards: clients die between any two requests, replies are lost, requests come late.

Every request to every shard is a step of its own. Clients take turns at random, so their requests mix in any order.
Deadlines are moved by hand, in single shards: so clocks differ, and a part may expire long before its home, or after.

What must hold: no message is lost; one that was acked is not delivered again, and no two holders ack it; an ack that
reported LeaseLost has acked nothing; one whose outcome its client never learned has acked all of its messages, or none.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import redis

from rmq_core import LeasedConfig
from rmq_core.errors import LeaseLost, QueueUnavailable, RedisMessageQueueError
from rmq_core.exchange import Across, At, Command, Patience, Pipeline
from rmq_core.exchange.frames import plan
from rmq_core.exchange.sync import SyncDriver
from rmq_core.kernel.keys import LeasedKeys
from rmq_core.leased import claiming, inspecting, managing, publishing, settling
from rmq_core.leased.shards import claiming as claims
from rmq_core.leased.shards.routes import route
from rmq_core.leased.state import LeasedEngine
from rmq_core.messages import Lease
from rmq_core.reports import Outcome
from tests.core.worlds import World

SHARDS = 3
ONCE = Patience(0, once=True)


class Late:
    """Requests that are in a socket somewhere: they arrive at any time, however their clients have gone on."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.requests = chance, list[Callable[[], object]]()

    def arrive(self) -> None:
        if self.requests:
            self.requests.pop(self.chance.randrange(len(self.requests)))()


class Client:
    """A client that does one thing at a time, a request a step."""

    def __init__(self, run: Run, name: str) -> None:
        self.run, self.name = run, name
        self.engine = LeasedEngine(LeasedKeys("q"), LeasedConfig(max_deliveries=None, lease=600))
        self.engine.registered = True
        self.driver = SyncDriver(run.client, self.engine.prefix, 0)
        self.leases: list[Lease] = []
        self.held: dict[int, frozenset[str]] = {}
        self.exchange: Any = None
        self.asked: list[Any] = []
        self.replies: dict[int, Any] = {}
        self.want: Any = None
        self.then: Callable[[Any], None] = lambda _: None
        self.what: tuple[str, Any] = ("", None)
        self.engine.take(run.client.get(self.engine.keys.settings))

    @property
    def idle(self) -> bool:
        return self.exchange is None

    def begin(
        self, what: tuple[str, Any], then: Callable[[Any], None], operation: Any, *args: Any, **kwargs: Any
    ) -> None:
        self.what, self.then = what, then
        self.exchange = route(operation)(self.engine, *args, **kwargs)
        self._go_on(lambda: next(self.exchange))

    def die(self) -> None:
        """Be replaced by a client that knows nothing; what was asked may arrive yet."""
        for each in self.asked:
            if self.run.chance.random() < 0.5:
                self._later(each)
        if self.exchange is not None:
            self.run.unknown(self, self.what)
        self.__init__(self.run, self.name)  # type: ignore[misc]

    def step(self) -> None:
        """Perform one of the requests that were sent at once."""
        place = self.run.chance.choice([at for at in range(len(self.asked)) if at not in self.replies])
        fate, each = self.run.chance.random(), self.asked[place]
        if fate < 0.02:
            self.die()
            return
        if fate < 0.05:
            self._later(each)
            self.replies[place] = QueueUnavailable("late")
        elif fate < 0.08:
            self.perform(each)
            self.replies[place] = QueueUnavailable("its reply is lost")
        elif fate < 0.11:
            self.replies[place] = QueueUnavailable("away")
        else:
            self.replies[place] = self.perform(each)
        if len(self.replies) == len(self.asked):
            self._answer()

    def finish(self) -> None:
        """Go on to the end without any trouble."""
        while not self.idle:
            self.replies = {at: self.perform(each) for at, each in enumerate(self.asked)}
            self._answer()

    def _answer(self) -> None:
        if isinstance(self.want, Across):
            replies = [self.replies[at] for at in range(len(self.asked))]
            self._go_on(lambda: self.exchange.send(replies))
            return
        reply = self.replies[0]
        if isinstance(reply, Exception):
            self._go_on(lambda: self.exchange.throw(reply))
        else:
            self._go_on(lambda: self.exchange.send(reply))

    def _go_on(self, step: Callable[[], Any]) -> None:
        try:
            self.want = step()
        except StopIteration as stop:
            self._end(stop.value)
        except QueueUnavailable:
            self.run.unknown(self, self.what)
            self._end(None)
        except RedisMessageQueueError as error:
            self._end(error)
        else:
            self.asked = list(self.want.parts) if isinstance(self.want, Across) else [self.want]
            self.replies = {}

    def _end(self, result: Any) -> None:
        self.exchange, self.asked, self.replies = None, [], {}
        self.then(result)

    def perform(self, want: Any) -> Any:
        try:
            return self.driver.perform(want, ONCE)
        except RedisMessageQueueError as error:
            return error
        except redis.RedisError as error:
            raise AssertionError(f"{want} failed") from error

    def _later(self, want: Any) -> None:
        """Send a request that arrives at some time, with the slot that it would have had now."""
        driver, asked = self.driver, want
        if isinstance(want, At):
            driver, asked = driver._shard(want.prefix), want.want
        if isinstance(asked, Across):
            for part in asked.parts:
                self._later(part)
            return
        if isinstance(asked, Command):
            asked = Pipeline((asked,))
        planned = plan(asked, driver._slots)
        planned.release(driver._slots)
        self.run.late.requests.append(lambda: driver._exchange(planned))


class Run:
    """One random program, and what it knows of each message."""

    def __init__(self, client: redis.Redis, seed: int, clients: int = 3) -> None:
        self.client, self.chance = client, random.Random(seed)
        self.late = Late(self.chance)
        self.stored: set[str] = set()
        self.acked: Counter[str] = Counter()
        self.unsure: list[frozenset[str]] = []
        """Messages of acks whose outcome nobody learned."""
        self.ids = 0
        self.clients = [Client(self, f"c{number}") for number in range(clients)]

    def step(self) -> None:
        fate = self.chance.random()
        if fate < 0.03:
            self.late.arrive()
        elif fate < 0.07:
            self.expire()
        client = self.chance.choice(self.clients)
        if client.idle:
            self.begin(client)
        else:
            client.step()

    def begin(self, client: Client) -> None:
        lease = self.chance.choice(client.leases) if client.leases and self.chance.random() < 0.6 else None
        if lease is not None:
            self.settle(client, lease)
            return
        named = self.chance.choice(["a", "b"])
        fate = self.chance.random()
        if fate < 0.3:
            texts = [self.text() for _ in range(self.chance.randint(1, 4))]
            client.begin(("publish", texts), lambda got: self.stored_all(got, texts), publishing.publish_many, texts)
        elif fate < 0.75:
            most, lease_id = self.chance.randint(1, 7), self.chance.choice([named, named, None])
            client.begin(
                ("claim", None), lambda got: self.got(client, got), claiming.claim, max_messages=most,
                lease_id=lease_id, owner=client.name,
            )  # fmt: skip
        elif fate < 0.85:
            client.begin(("adopt", None), lambda got: self.got(client, got), claiming.adopt, named, owner=client.name)
        elif fate < 0.9:
            client.begin(("look", None), lambda _: None, inspecting.backlog)
        elif fate < 0.95:
            client.begin(("release", None), lambda _: None, managing.release_lease, named)
        else:
            client.begin(("expire", None), lambda _: None, managing.expire_lease, named)

    def settle(self, client: Client, lease: Lease) -> None:
        fate, texts = self.chance.random(), client.held[id(lease)]
        if fate < 0.45:
            client.leases.remove(lease)
            client.begin(("ack", texts), lambda got: self.settled(lease, texts, got), settling.ack, lease)
        elif fate < 0.6:
            client.leases.remove(lease)
            client.begin(("nack", None), lambda _: None, settling.nack, lease)
        elif fate < 0.7:
            client.leases.remove(lease)
            client.begin(("release", None), lambda _: None, settling.release, lease)
        elif fate < 0.85 and lease.complete:
            some = self.chance.sample(list(lease.messages), self.chance.randint(1, lease.count))
            chosen = frozenset(message.payload for message in some)

            def done(report: Any) -> None:
                if not isinstance(report, Exception) and report is not None:
                    for message, outcome in zip(some, report.outcomes, strict=True):
                        if outcome == Outcome.SETTLED:
                            self.acked[message.payload] += 1

            client.begin(("ack some", chosen), done, settling.ack, lease, some)
        else:
            client.begin(("extend", None), lambda _: None, settling.extend, lease)

    def got(self, client: Client, lease: Any) -> None:
        if not isinstance(lease, Lease) or not lease.complete or not lease.count:
            return
        texts = frozenset(message.payload for message in lease.messages)
        if again := texts & self.acked.keys():
            raise AssertionError(f"{again} were acked, and are delivered again")
        client.held[id(lease)] = texts
        client.leases.append(lease)

    def settled(self, lease: Lease, texts: frozenset[str], report: Any) -> None:
        """Note what an ack has said. Of a lease that was settled in part, only the rest counts."""
        if isinstance(report, LeaseLost):
            return
        if isinstance(report, Exception):
            raise report
        if report is not None:
            self.acked.update(texts - self.acked.keys() if lease.state.partly else texts)

    def unknown(self, client: Client, what: tuple[str, Any]) -> None:
        if what[0] == "ack":
            self.unsure.append(what[1])
        elif what[0] == "ack some":
            self.unsure += [frozenset([each]) for each in what[1]]

    def expire(self) -> None:
        """Let the deadline of some leases pass, each in its own shard."""
        for engine in self.clients[0].engine.shards.engines.values():  # type: ignore[union-attr]
            for name in self.client.zrange(engine.keys.leases, 0, -1):
                if self.chance.random() < 0.4:
                    self.client.zadd(engine.keys.leases, {name: 1})

    def text(self) -> str:
        self.ids += 1
        return f"m{self.ids}"

    def end(self) -> None:
        """Let all leases expire, claim everything that is left, and compare."""
        for client in self.clients:
            if not client.idle:
                client.die()
        while self.late.requests:
            self.late.arrive()
        last = self.clients[0]
        left: Counter[str] = Counter()
        for _ in range(300):
            for engine in last.engine.shards.engines.values():  # type: ignore[union-attr]
                for name in self.client.zrange(engine.keys.leases, 0, -1):
                    self.client.zadd(engine.keys.leases, {name: 1})
            found: list[Any] = []
            last.begin(("claim", None), found.append, claiming.claim, max_messages=7, owner="last")
            last.finish()
            lease = found[0]
            if isinstance(lease, Exception):
                raise lease
            if lease is None:
                break
            left.update(message.payload for message in lease.messages)
            last.begin(("ack", frozenset()), found.append, settling.ack, lease)
            last.finish()
            assert not isinstance(found[-1], Exception), found[-1]
        else:
            raise AssertionError("messages come again and again")
        self.compare(left)
        for engine in last.engine.shards.engines.values():  # type: ignore[union-attr]
            stuck = self.client.zrange(engine.keys.leases, 0, -1)
            assert not stuck, f"leases stay: {stuck}"
            rest = [
                key for key in self.client.keys(engine.keys.prefix + b"*") if b":lease:" in key or b":parts:" in key
            ]
            assert not rest, rest

    def compare(self, left: Counter[str]) -> None:
        twice = [text for text, count in left.items() if count > 1]
        assert not twice, f"stored twice: {twice}"
        wrong = [text for text in left if self.acked[text]]
        assert not wrong, f"acked, and delivered again: {wrong}"
        both = [text for text, count in self.acked.items() if count > 1]
        assert not both, f"acked by two holders: {both}"
        for text in sorted(self.stored - left.keys() - self.acked.keys()):
            whole = [each for each in self.unsure if text in each and all(other not in left for other in each)]
            assert whole, f"{text} is lost"

    def stored_all(self, report: Any, texts: list[str]) -> None:
        if report is not None and not isinstance(report, Exception):
            assert report.accepted == len(texts)
            self.stored.update(texts)


@pytest.mark.parametrize("seed", range(int(os.environ.get("SEEDS", "12"))))
def test_whatever_clients_do(world: World, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures come from the seed alone, so a failing one fails again."""
    monkeypatch.setattr(claims, "_FEW", 2)
    queue = world.queue()
    queue.admin.configure(shards=SHARDS)
    run = Run(world.client, seed)
    for _ in range(400):
        run.step()
    run.end()
