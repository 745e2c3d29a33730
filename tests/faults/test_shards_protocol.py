"""Random programs on a queue in shards: clients die between any two requests, replies are lost, requests come late.

Each step of a program is one request to one shard. Clients take turns of several steps, and some pause for long.
What decides is followed by trouble more often than other requests: its client dies or stops, or late requests arrive.
Deadlines are moved by hand, in single shards: so clocks differ, and a part may expire long before its home, or after.
Two of three programs also change in how many shards the queue is stored; one of these begins with a queue in one slot.

What must hold: no message is lost; one that was acked is not delivered again, and no two holders ack it; an ack that
reported LeaseLost has acked nothing; one whose outcome its client never learned has acked all of its messages, or none;
of the messages that were published with one deduplication key, one is stored, whatever the map was.

A seed is a program: all choices, names, tokens and clocks of clients follow from it. The server's clock does not, but
programs last for less than any of its deadlines, and order what they read.
"""

from __future__ import annotations

import itertools
import os
import random
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest
import redis

from rmq_core import LeasedConfig, NewMessage
from rmq_core.admin import configuring
from rmq_core.envelope import codec
from rmq_core.envelope.payloads import key_digest
from rmq_core.errors import (
    LeaseAlreadySettled,
    LeaseLost,
    QueueUnavailable,
    RedisMessageQueueError,
    WrongKeyType,
    translate,
)
from rmq_core.exchange import Across, At, Call, Command, Patience, Pipeline, Sleep
from rmq_core.exchange.frames import FAILURES, plan
from rmq_core.exchange.scripts import laid_out
from rmq_core.exchange.sync import SyncDriver
from rmq_core.kernel import settings
from rmq_core.kernel.keys import LeasedKeys
from rmq_core.leased import claiming, inspecting, managing, publishing, settling
from rmq_core.leased.shards import claiming as claims
from rmq_core.leased.shards import state
from rmq_core.leased.shards.publishing import home_of
from rmq_core.leased.state import LeasedEngine
from rmq_core.messages import Lease, Message
from rmq_core.reports import Outcome

STEPS = 700
SEEDS, FULL = 24, 600
Program: TypeAlias = "Callable[[int], Run]"
ONCE = Patience(0, once=True)
DECIDES = {"leased/decide", "leased/adopt", "leased/anchor", "leased/stamp", "leased/reclaim", "kernel/configure"}
UNKNOWN = object()
"""The result of an operation whose outcome its client does not learn."""


class Late:
    """Requests that are in a socket somewhere: they arrive at any time, however their clients have gone on."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.requests = chance, list[Callable[[], object]]()

    def arrive(self) -> None:
        if self.requests:
            self.requests.pop(self.chance.randrange(len(self.requests)))()


class Held:
    """A lease that a client holds. texts: of the messages that it still has. maybe: those settled with no reply."""

    def __init__(self, lease: Lease, messages: list[Message]) -> None:
        self.lease, self.messages = lease, messages
        self.decided = False
        self.texts: set[Any] = {each.payload for each in messages}
        self.maybe = set[Any]()


class Client:
    """A client that does one thing at a time, a request a step."""

    def __init__(self, run: Run, name: str) -> None:
        self.run, self.name = run, name
        self.engine = LeasedEngine(LeasedKeys("q"), LeasedConfig(max_deliveries=None, lease=600, history=False))
        self.engine.registered = True
        self.driver = SyncDriver(run.client, self.engine.prefix, 0)
        self.leases: list[Held] = []
        self.stops_until, self.looks = 0, run.chance.choice([0.03, 0.6])
        self.cut = False
        """Whether no request gets through until all that were sent at once have failed."""
        self.acking: Held | None = None
        self.exchange: Any = None
        self.asked: list[Any] = []
        self.replies: dict[int, Any] = {}
        self.want: Any = None
        self.then: Callable[[Any], None] = lambda _: None
        self.look()

    @property
    def idle(self) -> bool:
        return self.exchange is None

    def look(self) -> None:
        """Read the settings, as a driver does now and then beside its requests."""
        self.engine.take(self.run.client.get(self.engine.keys.settings))

    def begin(self, then: Callable[[Any], None], operation: Any, *args: Any, **kwargs: Any) -> None:
        self.then = then
        self.exchange = self.engine.routed(operation)(self.engine, *args, **kwargs)
        self._go_on(lambda: next(self.exchange))

    def die(self) -> None:
        """Replace the client by a new one; its pending requests may still be delivered later."""
        for place, each in enumerate(self.asked):
            if place not in self.replies and self.run.chance.random() < 0.5:
                self._later(each)
        if self.exchange is not None:
            self.then(UNKNOWN)
        self.__init__(self.run, self.name)  # type: ignore[misc]

    def step(self) -> None:
        """Perform one of the requests that were sent at once."""
        chance = self.run.chance
        place = chance.choice([at for at in range(len(self.asked)) if at not in self.replies])
        fate, each = chance.random(), self.asked[place]
        if fate < 0.01:
            self.die()
            return
        if fate < 0.03:
            self._later(each)
            self.replies[place] = QueueUnavailable("late")
        elif fate < 0.05:
            self.perform(each)
            self.replies[place] = QueueUnavailable("its reply is lost")
        elif fate < 0.07 or self.cut:
            self.replies[place] = QueueUnavailable("away")
        else:
            self.replies[place] = self.perform(each)
        fate, cut = chance.random(), False
        if _name_of(each) in DECIDES:
            if fate < 0.08:
                self.die()
                self.run.after_a_decision()
                return
            if fate < 0.25:
                self.run.after_a_decision()
            cut = 0.25 < fate < 0.4
        if 0.4 < fate < 0.45:
            self.stops_until = self.run.steps + chance.randint(5, 80)
        if len(self.replies) == len(self.asked):
            self.cut = cut
            self._answer()

    def do(self, operation: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the result of an operation without any trouble."""
        found: list[Any] = []
        self.begin(found.append, operation, *args, **kwargs)
        self.finish()
        return found[0]

    def finish(self) -> None:
        """Go on to the end without any trouble."""
        while not self.idle:
            for at, each in enumerate(self.asked):
                if at not in self.replies:
                    self.replies[at] = self.perform(each)
            self._answer()

    def do_until(self, script: str, operation: Any, *args: Any, before: bool = False, **kwargs: Any) -> None:
        """Begin an operation, and stop after the first request that is a call of this script, or before that."""
        self.begin(lambda _: None, operation, *args, **kwargs)
        while True:
            for at, each in enumerate(self.asked):
                if before and _name_of(each) == script:
                    return
                self.replies[at] = self.perform(each)
                if _name_of(each) == script:
                    return
            self._answer()
            assert not self.idle, f"it sent no {script}"

    def _answer(self) -> None:
        reply = _joined(self.want, (self.replies[at] for at in range(len(self.asked))))
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
            self._end(UNKNOWN)
        except RedisMessageQueueError as error:
            self._end(error)
        else:
            self.asked, self.replies = list(_single(self.want)), {}

    def _end(self, result: Any) -> None:
        self.exchange, self.asked, self.replies = None, [], {}
        then, self.acking = self.then, None
        then(result)

    def perform(self, want: Any) -> Any:
        if isinstance(want, Sleep):
            return None
        self.run.note(self, want)
        for _ in range(3):
            try:
                reply = self.driver.perform(want, ONCE)
                self.run.performed(want, reply, self.acking)
                return reply
            except FAILURES as error:
                failure = translate(error)
                again = self.driver.run(laid_out(want)) if isinstance(failure, WrongKeyType) else None
                if again is None:
                    raise AssertionError(f"{want} failed") from error
                want = again
            except RedisMessageQueueError as error:
                return error
        raise AssertionError(f"{want} failed")

    def _later(self, want: Any) -> None:
        """Send a request that arrives at some time, with the slot that it would have had now."""
        driver, asked = self.driver, want
        if isinstance(want, At):
            driver, asked = driver._shard(want.prefix), want.want
        if isinstance(asked, Sleep):
            return
        if isinstance(asked, Command):
            asked = Pipeline((asked,))
        planned, acking = plan(asked, driver._slots), self.acking
        planned.release(driver._slots)

        def arrive() -> None:
            self.run.note(self, want, "late")
            self.run.performed(want, driver._exchange(planned)[0], acking)

        self.run.late.requests.append(arrive)


def _single(want: Any) -> Iterator[Any]:
    """Yield the requests of which one consists, each to one shard."""
    inner = want.want if isinstance(want, At) else want
    if isinstance(inner, Across):
        for part in inner.parts:
            yield from _single(part)
    else:
        yield want


def _joined(want: Any, replies: Iterator[Any]) -> Any:
    """Return the reply to a request; replies: those to what `_single` yields."""
    inner = want.want if isinstance(want, At) else want
    return [_joined(part, replies) for part in inner.parts] if isinstance(inner, Across) else next(replies)


def _name_of(want: Any) -> str:
    inner = want.want if isinstance(want, At) else want
    return inner.script.name if isinstance(inner, Call) else ""


class Run:
    """One random program, and what it knows of each message."""

    def __init__(self, client: redis.Redis, seed: int, clock: SimpleNamespace) -> None:
        self.client: Any = client
        self.chance, self.clock = random.Random(seed), clock
        self.steps = 0
        self.late = Late(self.chance)
        self.trace: list[str] = []
        self.stored: set[str] = set()
        self.delivered: set[str] = set()
        self.acked: Counter[str] = Counter()
        self.unsure: list[frozenset[str]] = []
        """Messages of acks whose outcome nobody learned."""
        self.keyed: dict[str, list[str]] = {}
        """The messages that were published with a deduplication key."""
        self.known: set[str] = set()
        """The keys with which a message was accepted, or refused as a duplicate."""
        self.refused: set[str] = set()
        self.ids = 0
        self.changes = seed % 3 > 0
        self.clients = [Client(self, f"c{number}") for number in range(3)]
        self.turn = self.clients[0]
        if seed % 3 < 2:
            self.turn.begin(self.must, configuring.configure, shards=3)
            self.turn.finish()
            for each in self.clients:
                each.look()

    def note(self, client: Client, want: Any, how: str = "") -> None:
        """Keep what was sent, without the times of the server."""
        inner = want.want if isinstance(want, At) else want
        sent = [
            (_name_of(each), each.keys if isinstance(each, Call) else "", each.args)
            for each in (inner.calls if isinstance(inner, Pipeline) else [inner])
        ]
        self.trace.append(re.sub(r"\d{13}", "<ms>", f"{client.name} {how} {sent}"))

    def step(self) -> None:
        chance, fate = self.chance, self.chance.random()
        self.steps += 1
        self.clock.now += 0.1 * chance.random()
        if fate < 0.02:
            self.late.arrive()
        elif fate < 0.05:
            self.expire()
        ready = [each for each in self.clients if each.stops_until <= self.steps] or self.clients
        if self.turn not in ready or chance.random() < 0.15:
            self.turn = chance.choice(ready)
        if self.turn.idle:
            self.begin(self.turn)
        else:
            self.turn.step()

    def after_a_decision(self) -> None:
        """Deliver delayed requests, or pause the client for many steps, so that others go on."""
        if self.chance.random() < 0.5:
            for _ in range(3):
                self.late.arrive()
        else:
            self.turn.stops_until = self.steps + self.chance.randint(20, 100)

    def begin(self, client: Client) -> None:
        chance = self.chance
        if chance.random() < client.looks:
            client.look()
        held = chance.choice(client.leases) if client.leases and chance.random() < 0.7 else None
        if held is not None:
            self.settle(client, held)
            return
        named, fate = chance.choice(["a", "a", "a", "b"]), chance.random()
        if self.changes and chance.random() < 0.25:
            if chance.random() < 0.4:
                client.begin(self.must, configuring.configure, shards=chance.randint(1, 5))
            else:
                self.publish_keyed(client)
        elif fate < 0.2:
            texts = [self.text() for _ in range(chance.randint(1, 4))]
            client.begin(lambda got: self.stored_all(got, texts), publishing.publish_many, texts)
        elif fate < 0.65:
            most, lease_id = chance.randint(1, 7), chance.choice([named, named, None])
            client.begin(
                lambda got: self.got(client, got), claiming.claim, max_messages=most, lease_id=lease_id,
                owner=client.name,
            )  # fmt: skip
        elif fate < 0.8:
            client.begin(lambda got: self.got(client, got), claiming.adopt, named, owner=client.name)
        elif fate < 0.85:
            client.begin(self.must, inspecting.backlog)
        elif fate < 0.9:
            client.begin(self.may_be_lost, managing.release_lease, named)
        elif fate < 0.94:
            client.begin(self.may_be_lost, managing.expire_lease, named)
        else:
            client.begin(self.may_be_lost, managing.release_unanswered)

    def settle(self, client: Client, held: Held) -> None:
        chance, fate, lease = self.chance, self.chance.random(), held.lease
        if fate < 0.65:
            client.leases.remove(held)
        if fate < 0.35:
            client.acking = held
            client.begin(lambda got: self.settled(held, got), settling.ack, lease)
        elif fate < 0.45:

            def then(found: Any) -> None:
                self.settled(held, found)
                self.got(client, found)

            client.acking = held
            client.begin(then, claiming.claim_next, ack=lease, max_messages=chance.randint(1, 5))
        elif fate < 0.55:
            client.begin(self.may_be_lost, settling.nack, lease)
        elif fate < 0.65:
            client.begin(self.may_be_lost, settling.release, lease)
        elif fate < 0.9:
            some = chance.sample(held.messages, chance.randint(1, len(held.messages)))
            verb = chance.choice([settling.ack, settling.ack, settling.nack, settling.release])
            client.begin(lambda got: self.settled_some(held, some, got, acked=verb is settling.ack), verb, lease, some)
        else:
            client.begin(self.may_be_lost, settling.extend, lease)

    def publish_keyed(self, client: Client) -> None:
        """Publish messages with deduplication keys, a few of which are used at a time."""
        first = self.ids // 8
        keys = [f"k{first + number}" for number in self.chance.sample(range(4), self.chance.randint(1, 3))]
        sent = {key: self.text() for key in keys}
        for key, text in sent.items():
            self.keyed.setdefault(key, []).append(text)

        def then(report: Any) -> None:
            if report is UNKNOWN:
                return
            self.must(report)
            self.known.update(keys)
            for text, accepted in zip(sent.values(), report.ids, strict=True):
                (self.stored if accepted else self.refused).add(text)

        client.begin(then, publishing.publish_many, [NewMessage(text, dedup_key=key) for key, text in sent.items()])

    def got(self, client: Client, lease: Any) -> None:
        """Record the delivered messages; read those that the claim did not return."""
        self.may_be_lost(lease)
        if not isinstance(lease, Lease) or not lease.count:
            return
        if lease.complete:
            self.read(client, lease, lease.messages)
        else:
            client.begin(lambda found: self.read(client, lease, found), inspecting.read, lease)

    def read(self, client: Client, lease: Lease, messages: Any) -> None:
        self.may_be_lost(messages)
        if messages is UNKNOWN or isinstance(messages, Exception) or not messages:
            return
        held = Held(lease, list(messages))
        self.delivered |= held.texts
        client.leases.append(held)

    def settled(self, held: Held, result: Any) -> None:
        """Note what an ack of a whole lease has said."""
        self.may_be_lost(result)
        if isinstance(result, Exception):
            return
        if result is UNKNOWN:
            self.unsure.append(frozenset(held.texts - held.maybe))
        elif not held.decided:
            self.acked.update(held.texts - held.maybe)
        self.unsure += [frozenset([each]) for each in held.maybe]

    def settled_some(self, held: Held, some: list[Message], report: Any, *, acked: bool) -> None:
        self.may_be_lost(report)
        if report is UNKNOWN:
            chosen = held.texts.intersection(message.payload for message in some)
            held.maybe |= chosen
            if acked:
                self.unsure += [frozenset([each]) for each in chosen]
        elif not isinstance(report, Exception):
            for message, outcome in zip(some, report.outcomes, strict=True):
                if outcome == Outcome.SETTLED:
                    held.texts.discard(message.payload)
                    held.maybe.discard(message.payload)
                    if acked:
                        self.acked[str(message.payload)] += 1

    def performed(self, want: Any, reply: Any, acking: Held | None) -> None:
        """Note an ack as soon as it is decided, whatever its client learns of that."""
        if _name_of(want) == "leased/decide" and reply.startswith(b"acked") and acking:
            acking.decided = True
            self.acked.update(acking.texts - acking.maybe)

    def must(self, result: Any) -> None:
        if isinstance(result, Exception):
            raise result

    def may_be_lost(self, result: Any) -> None:
        if isinstance(result, Exception) and not isinstance(result, LeaseLost | LeaseAlreadySettled):
            raise result

    def stored_all(self, report: Any, texts: list[str]) -> None:
        if report is not UNKNOWN:
            self.must(report)
            assert report.accepted == len(texts)
            self.stored.update(texts)

    def expire(self, share: float = 0.4) -> None:
        """Let the deadline of some leases pass, each in its own shard."""
        for key in self.leases():
            for name in sorted(self.client.zrange(key, 0, -1)):
                if self.chance.random() < share:
                    self.client.zadd(key, {name: 1})

    def leases(self) -> list[Any]:
        """Return the key of the deadlines of each shard that the queue has had."""
        return sorted(self.client.keys("*:leases"))

    def text(self) -> str:
        self.ids += 1
        return f"m{self.ids}"

    def end(self) -> None:
        """Kill all clients, drain the queue, and compare the messages in it with the records of the clients."""
        for client in self.clients:
            if not client.idle:
                client.die()
        while self.late.requests:
            self.late.arrive()
        self.compare(Counter(str(message.payload) for message in self.left()))
        for key in self.leases():
            assert not self.client.zcard(key), f"leases stay: {self.client.zrange(key, 0, -1)}"
        rest = self.client.keys("*:lease:*") + self.client.keys("*:parts:*")
        assert not rest, rest

    def left(self, *, expired: bool = True) -> list[Message]:
        """Claim and ack everything that is there; let all leases expire first."""
        last, found = Client(self, "last"), list[Message]()
        for _ in range(300):
            if expired:
                self.expire(1)
            lease = last.do(claiming.claim, max_messages=7, owner="last")
            self.must(lease)
            if lease is None:
                return found
            found += lease.messages
            self.must(last.do(settling.ack, lease))
        raise AssertionError("messages come again and again")

    def compare(self, left: Counter[str]) -> None:
        twice = [text for text, count in left.items() if count > 1]
        assert not twice, f"stored twice: {twice}"
        wrong = [text for text in left if self.acked[text]]
        assert not wrong, f"acked, and delivered again: {wrong}"
        both = [text for text, count in self.acked.items() if count > 1]
        assert not both, f"acked by two holders: {both}"
        for text in sorted(self.stored - left.keys() - self.acked.keys()):
            whole = [
                each
                for each in self.unsure
                if text in each and not any(other in left or self.acked[other] for other in each)
            ]
            assert whole, f"{text} is lost"
        for key, texts in self.keyed.items():
            seen = [text for text in texts if text in left or text in self.delivered]
            assert len(seen) <= 1, f"{seen} were stored, all with the key {key}"
            assert seen or key not in self.known, f"the message of the key {key} is lost"
            assert not self.refused.intersection(seen), f"{seen} was no duplicate"


def made(monkeypatch: pytest.MonkeyPatch, client: redis.Redis, seed: int) -> Run:
    """Return the program of a seed, with three clients and an empty server."""
    client.flushdb()
    names, clock = random.Random(f"names {seed}"), SimpleNamespace(now=1000.0)
    monkeypatch.setattr(codec, "os", SimpleNamespace(urandom=names.randbytes, getpid=os.getpid))
    monkeypatch.setattr(codec, "_nonces", deque())
    monkeypatch.setattr(codec, "_prefix", f"{seed:016x}")
    monkeypatch.setattr(codec, "_counter", itertools.count())
    monkeypatch.setattr(codec, "_leases", itertools.count(1))
    monkeypatch.setattr(state, "randrange", names.randrange)
    for module in (state, settings):
        monkeypatch.setattr(module, "monotonic", lambda: clock.now)
    monkeypatch.setattr(claims, "_FEW", 2)
    return Run(client, seed, clock)


@pytest.fixture
def program(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> Program:
    return partial(made, monkeypatch, client)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Many seeds in full length."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(FULL if metafunc.config.getoption("faults") == "full" else SEEDS))


def test_whatever_clients_do(program: Program, seed: int) -> None:
    run = program(seed)
    for _ in range(STEPS):
        run.step()
    run.end()


def test_a_seed_is_a_program(program: Program) -> None:
    traces = []
    for _ in range(2):
        run = program(2)
        for _ in range(STEPS):
            run.step()
        traces.append(run.trace)
    assert traces[0] == traces[1]


def holding(run: Run, count: int = 9) -> tuple[Client, Client, Client, Lease]:
    """Return three clients, the first of which holds messages of all shards under the id "a"."""
    one, two, three = run.clients
    for number in range(count):
        one.do(publishing.publish, f"m{number}")
    lease = one.do(claiming.claim, max_messages=count, lease_id="a", owner="one")
    assert lease.count == count
    assert len(lease.parts) == 3
    return one, two, three, lease


def test_a_takeover_that_comes_too_late_takes_no_part(program: Program) -> None:
    run = program(0)
    _, two, three, _ = holding(run)
    two.do_until("leased/adopt", claiming.adopt, "a", owner="two")
    lease = three.do(claiming.adopt, "a", owner="three")
    assert lease.count == 9
    three.do_until("leased/decide", settling.ack, lease)
    two.finish()
    assert run.left() == []


@pytest.mark.parametrize("who", ["~@a", "~=a"])
def test_an_ack_that_is_decided_is_finished_by_whoever_meets_it(program: Program, who: str) -> None:
    """By the parts, whose deadline has passed, or by its record."""
    run = program(0)
    one, two, _, lease = holding(run)
    one.do_until("leased/decide", settling.ack, lease)
    for key in run.leases():
        run.client.zadd(key, {who: 1}, xx=True)
    run.must(two.do(inspecting.backlog))
    assert not run.client.keys("*:lease:*")
    assert run.left() == []


def test_a_client_that_dies_while_it_acks_has_acked_all_or_nothing(program: Program) -> None:
    run = program(0)
    one, _, _, lease = holding(run)
    one.do_until("leased/ack", settling.ack, lease)
    assert run.left() == []


def test_a_part_whose_shard_is_away_is_acked_later(program: Program) -> None:
    run = program(0)
    one, _, _, lease = holding(run)
    one.do_until("leased/ack", settling.ack, lease, before=True)
    one.replies[1] = QueueUnavailable("away")
    one.finish()
    assert run.left() == []


def test_a_part_that_its_holder_does_not_know_is_not_acked(program: Program) -> None:
    run = program(0)
    one, two, _ = run.clients
    for number in range(9):
        one.do(publishing.publish, f"m{number}")
    found: list[Any] = []
    one.do_until("leased/claim", claiming.claim, max_messages=9, lease_id="a")
    one.then, one.replies[0] = found.append, QueueUnavailable("its reply is lost")
    one.finish()
    assert len(found[0].parts) == 2
    one.do_until("leased/decide", settling.ack, found[0])
    for key in run.leases():
        run.client.zadd(key, {"~@a": 1}, xx=True)
    run.must(two.do(inspecting.backlog))
    assert len(run.left()) == 9 - found[0].count


def test_parts_whose_deadline_has_passed_wait_while_their_lease_lives(program: Program) -> None:
    run = program(0)
    one, _, _, lease = holding(run)
    for key in run.leases():
        run.client.zadd(key, {"~@a": 1}, xx=True)
    assert run.left(expired=False) == []
    assert one.do(settling.ack, lease).settled == 9


def test_an_ack_that_comes_while_the_lease_is_taken_back_acks_nothing(program: Program) -> None:
    run = program(0)
    one, two, _, lease = holding(run)
    one.do_until("leased/decide", settling.ack, lease, before=True)
    two.do_until("leased/reclaim", managing.expire_lease, "a")
    found: list[Any] = []
    one.then = found.append
    one.finish()
    assert isinstance(found[0], LeaseLost)
    assert len(run.left()) == 9


def test_two_clients_open_an_id_once(program: Program) -> None:
    run = program(0)
    one, two, _ = run.clients
    for number in range(9):
        one.do(publishing.publish, f"m{number}")
    two.do_until("leased/anchor", claiming.claim, max_messages=9, lease_id="a", owner="two", before=True)
    lease = one.do(claiming.claim, max_messages=9, lease_id="a", owner="one")
    two.finish()
    assert isinstance(one.do(settling.ack, lease), LeaseLost)
    assert len(run.left()) == 9


@pytest.mark.parametrize("how", ["nack", "expire"])
def test_messages_of_a_lease_that_is_ended_halfway_count_as_failed(program: Program, how: str) -> None:
    """Its home knows of the parts that are left, until the last one is given back."""
    run = program(0)
    one, two, _, lease = holding(run)
    if how == "nack":
        one.do_until("leased/give_back", settling.nack, lease)
    else:
        two.do_until("leased/reclaim", managing.expire_lease, "a")
    assert [message.deliveries for message in run.left()] == [2] * 9


def test_a_part_that_was_taken_over_is_not_reclaimed(program: Program) -> None:
    run = program(0)
    _, two, three, _ = holding(run)
    two.do_until("leased/reclaim", managing.expire_lease, "a", before=True)
    lease = three.do(claiming.adopt, "a", owner="three")
    two.finish()
    assert three.do(settling.ack, lease).settled == 9
    assert run.left() == []


def test_a_lease_that_was_extended_meanwhile_is_not_reclaimed(program: Program) -> None:
    run = program(0)
    one, two, _, lease = holding(run)
    run.expire(1)
    two.do_until("leased/adopt", inspecting.backlog, before=True)
    one.do(settling.extend, lease)
    two.finish()
    assert one.do(settling.ack, lease).settled == 9


def test_parts_of_a_takeover_that_a_fail_over_lost_come_back(program: Program) -> None:
    """The parts are of a later takeover than their home, which knows nothing of that."""
    run = program(0)
    _, two, _, _ = holding(run)
    head = run.client.lindex("rmq:{q}:lease:a", 0)
    assert two.do(claiming.adopt, "a", owner="two").count == 9
    run.client.lset("rmq:{q}:lease:a", 0, head)
    for key in run.leases():
        run.client.zadd(key, {"~@a": 1}, xx=True)
    assert len(run.left(expired=False)) == 9


def test_the_record_of_a_later_ack_stays(program: Program) -> None:
    """A client that has finished an earlier ack of the same id forgets only that one."""
    run = program(0)
    one, two, three, lease = holding(run)
    one.do(settling.release, lease, [lease.messages[0]])  # so the id is free again
    one.do_until("leased/decide", settling.ack, lease)
    two.do_until("leased/finished", claiming.claim, lease_id="a", max_messages=9, before=True)
    for number in range(6):
        three.do(publishing.publish, f"n{number}")
    later = three.do(claiming.claim, lease_id="a", max_messages=9)
    assert later.count == 7
    three.do(settling.release, later, [later.messages[0]])
    three.do_until("leased/decide", settling.ack, later)
    two.finish()
    run.client.delete("rmq:{q}:lease:a")  # of what the second client claimed then
    assert [message.payload for message in run.left()] == [later.messages[0].payload]


def test_an_ack_is_finished_in_shards_that_its_finisher_has_not_known(program: Program) -> None:
    run = program(0)
    old, two, _ = run.clients
    two.do(configuring.configure, shards=5)
    for number in range(10):
        two.do(publishing.publish, f"m{number}")
    lease = two.do(claiming.claim, max_messages=10, lease_id="a")
    assert {name for name, _ in lease.parts} - old.engine.shards.engines.keys()  # type: ignore[union-attr]
    two.do_until("leased/decide", settling.ack, lease)
    assert isinstance(old.do(claiming.claim, lease_id="a"), LeaseAlreadySettled)
    assert run.left() == []


@pytest.mark.parametrize("count", [2, 5])
def test_a_key_is_taken_once_while_only_some_shards_know_a_new_map(program: Program, count: int) -> None:
    run = program(0)
    old, changing, fresh = run.clients
    changing.do_until("leased/stamp", configuring.configure, shards=count)
    changing.perform(changing.asked[1])  # so the first two shards know the new map
    fresh.look()
    before, after = (each.engine.shards.map.names for each in (old, fresh))  # type: ignore[union-attr]
    keys = [key for key in map(str, range(200)) if place_of(key, after) == after[1] != place_of(key, before) != "0"]
    for key in keys:
        assert fresh.do(publishing.publish, "x", dedup_key=key).accepted
        assert not old.do(publishing.publish, "x", dedup_key=key).accepted
    assert len(run.left()) == len(keys)


def place_of(key: str, names: Sequence[str]) -> str:
    return home_of(key_digest(key), names)


def test_shards_that_are_empty_remember_their_keys(program: Program) -> None:
    run = program(0)
    one, two, _ = run.clients
    for number in range(20):
        assert one.do(publishing.publish, "x", dedup_key=str(number)).accepted
    assert len(run.left()) == 20
    for count in (1, 1, 4, 4):
        run.must(two.do(configuring.configure, shards=count))
    for number in range(20):
        assert not two.do(publishing.publish, "x", dedup_key=str(number)).accepted


def test_what_is_given_back_before_the_first_shard_knows_the_map_stays(program: Program) -> None:
    run = program(2)  # a queue in one slot
    one, two, three = run.clients
    for number in range(6):
        one.do(publishing.publish, f"m{number}")
    assert one.do(claiming.claim, max_messages=4).count == 4
    two.do_until("leased/stamp", configuring.configure, before=True, shards=3)
    three.look()
    run.expire(1)
    run.must(three.do(inspecting.backlog))
    two.finish()
    assert sorted(str(message.payload) for message in run.left()) == [f"m{number}" for number in range(6)]


def test_a_client_whose_change_fails_halfway_knows_no_shards(program: Program) -> None:
    """The client uses the old map until it reads the settings; then it uses the same one as all other clients."""
    run = program(2)
    one, two, _ = run.clients
    one.do_until("leased/stamp", configuring.configure, before=True, shards=3)
    for place in range(3):
        one.replies[place] = one.perform(one.asked[place])
    one.replies[1] = QueueUnavailable("its reply is lost")
    one.finish()
    for number in range(20):
        two.look()
        assert two.do(publishing.publish, "x", dedup_key=str(number)).accepted
        assert not one.do(publishing.publish, "x", dedup_key=str(number)).accepted
    assert len(run.left()) == 20
