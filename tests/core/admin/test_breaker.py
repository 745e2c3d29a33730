"""The breaker: a queue pauses itself once so many messages became dead letters within a span of time, and says so once.

`fail` makes dead letters in each way in which a discipline makes them.
"""

from __future__ import annotations

import inspect
import logging
import random
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
import redis

from rmq_core import ConfigurationError, LeasedConfig
from rmq_core.envelope.export_record import StoredMessage
from rmq_core.events import Operation, QueueEvent
from rmq_core.jobs import JobsConfig
from rmq_core.kernel.base import tools_of
from rmq_core.observe.history import pause_reason
from rmq_core.policy import Breaker
from tests.core.leases import blocked, driver_of, engine_of, eventually, handler_of, key
from tests.core.worlds import World

_DIED = re.compile(rb"\t(\d{13})\t")
ABLE = ("leased", "jobs")
SPAN_S = 600
REASON = "3 dead letters within 10 minutes"
CONFIGS: dict[str, Any] = {
    "leased": LeasedConfig(max_deliveries=1, lease=SPAN_S),
    "jobs": JobsConfig(max_attempts=1, lease=SPAN_S),
}


def opened(world: World, discipline: str, **settings: Any) -> Any:
    """Return a queue that stores a breaker, whose messages die of their first failure."""
    queue = world.open(discipline, "q", CONFIGS[discipline])
    queue.admin.configure(**{"pause_after_dead": Breaker(3, SPAN_S), **settings})
    return queue


def dead_key(discipline: str) -> str:
    return key("dead" if discipline == "leased" else "jobs:dead")


def leases_key(discipline: str) -> str:
    return key("leases" if discipline == "leased" else "jobs:leases")


def nacked(_: World, queue: Any, __: str) -> None:
    queue.nack(queue.claim(), reason="bad deploy")


def nacked_in_part(_: World, queue: Any, __: str) -> None:
    lease = queue.claim()
    queue.nack(lease, lease.messages, reason="bad deploy")


def reclaimed_by_another(world: World, queue: Any, discipline: str) -> None:
    lease = queue.claim()
    world.client.zadd(leases_key(discipline), {lease.id: 1}, xx=True)
    world.open(discipline, "q", CONFIGS[discipline]).backlog()


def expired_by_an_operator(_: World, queue: Any, __: str) -> None:
    queue.admin.expire_lease(queue.claim().id, reason="bad deploy")


WAYS: dict[str, Callable[[World, Any, str], None]] = {
    each.__name__: each for each in (nacked, nacked_in_part, reclaimed_by_another, expired_by_an_operator)
}


def fail(world: World, queue: Any, count: int = 1, how: str = "nacked", discipline: str = "leased") -> None:
    for _ in range(count):
        queue.publish({"n": 1})
        WAYS[how](world, queue, discipline)


def die_earlier(world: World, discipline: str, letters: int, by_s: float) -> None:
    """Move the deaths of the newest letters into the past."""
    name = dead_key(discipline)
    for at in range(letters):
        letter = world.client.lindex(name, at)
        earlier = _DIED.sub(lambda found: b"\t%d\t" % (int(found[1]) - by_s * 1000), letter)
        world.client.lset(name, at, earlier)


def pauses(queue: Any) -> list[tuple[str, str]]:
    return [(mark.by, mark.text) for mark in queue.admin.marks() if mark.kind == "pause"]


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "paused itself" in record.getMessage()]


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("discipline", ABLE)
def test_a_queue_pauses_itself_and_says_once_why_and_how_to_go_on(
    world: World, discipline: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = opened(world, discipline)
    queue.publish_many([{"n": n} for n in range(5)])
    for expected in (False, False, True):
        assert queue.stats().paused is False
        WAYS[how](world, queue, discipline)
        assert queue.stats().paused is expected
    assert queue.claim() is None
    assert queue.stats()[:1] == (2,)
    assert eventually(lambda: pauses(queue)) == [("breaker", REASON)]
    assert pause_reason(queue.admin.marks()) == f"paused by the breaker: {REASON}"
    (line,) = lines(caplog)
    assert f"queue 'q' paused itself after {REASON}" in line
    assert "`rmq resume QUEUE`" in line
    assert caplog.records[-1].levelno == logging.WARNING


@pytest.mark.parametrize("discipline", ABLE)
def test_a_batch_that_dies_at_once_trips_the_breaker_and_one_that_dies_slowly_does_not(
    world: World, discipline: str
) -> None:
    queue = opened(world, discipline)
    for _ in range(4):
        fail(world, queue, 2, discipline=discipline)
        die_earlier(world, discipline, 2, SPAN_S + 1)
    assert (queue.stats().dead, queue.stats().paused) == (8, False)
    queue.publish_many([{"n": n} for n in range(5)])
    lease = queue.claim(max_messages=5)
    queue.nack(lease, lease.messages[:2])
    assert not queue.stats().paused
    queue.nack(lease, lease.messages[2:])
    assert (queue.stats().dead, queue.stats().paused) == (13, True)
    assert pauses(queue) == [("breaker", REASON)]


@pytest.mark.parametrize("discipline", ABLE)
def test_after_a_resume_letters_of_before_count_until_they_are_old_or_gone(world: World, discipline: str) -> None:
    queue = opened(world, discipline)
    fail(world, queue, 3, discipline=discipline)
    queue.admin.resume()
    fail(world, queue, discipline=discipline)
    assert queue.stats().paused
    queue.admin.resume()
    assert queue.admin.redrive() == 4
    lease = queue.claim(max_messages=4)
    queue.nack(lease, lease.messages[:2])
    assert not queue.stats().paused, "those that were redriven count only if they die again"
    die_earlier(world, discipline, 2, SPAN_S + 1)
    queue.nack(lease, lease.messages[2:])
    assert (queue.stats().dead, queue.stats().paused) == (4, False)
    fail(world, queue, discipline=discipline)
    assert queue.stats().paused
    assert len(pauses(queue)) == 3


@pytest.mark.parametrize("discipline", ABLE)
def test_a_queue_that_somebody_has_paused_stays_his(
    world: World, discipline: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = opened(world, discipline)
    queue.publish_many([{"n": n} for n in range(4)])
    leases = [queue.claim() for _ in range(4)]
    queue.admin.pause()
    for lease in leases:
        queue.nack(lease)
    assert (queue.stats().dead, queue.stats().paused) == (4, True)
    assert len(queue.admin.marks()) == 2, "that of configure, and his"
    assert not lines(caplog)
    assert pause_reason(queue.admin.marks()).startswith("paused by ")
    assert "breaker" not in pause_reason(queue.admin.marks())


class Oracle:
    """What a queue must do: `ages` are those of its dead letters in seconds, the newest first."""

    def __init__(self) -> None:
        self.ages: list[int] = []
        self.paused, self.trips = False, 0

    def die(self, count: int) -> None:
        self.ages = [0] * count + self.ages
        if count and len(self.ages) >= 3 and self.ages[2] <= SPAN_S and not self.paused:
            self.paused, self.trips = True, self.trips + 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("discipline", ABLE)
def test_random_calls_pause_the_queue_exactly_when_the_oracle_says_so(
    world: World, discipline: str, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    queue, chance, oracle = opened(world, discipline), random.Random(f"{discipline} {seed}"), Oracle()
    held: list[Any] = []

    def claim() -> None:
        queue.publish_many([{"n": n} for n in range(chance.randint(1, 4))])
        lease = queue.claim(max_messages=chance.randint(1, 4))
        assert (lease is None) is oracle.paused
        held.extend([lease] if lease else [])

    def nack() -> None:
        if held:
            lease = held.pop(chance.randrange(len(held)))
            some = chance.sample(lease.messages, chance.randint(0, lease.count))
            queue.nack(lease, some)
            oracle.die(len(some))
            if len(some) < lease.count:
                queue.nack(lease)
                oracle.die(lease.count - len(some))

    def pass_time() -> None:
        die_earlier(world, discipline, len(oracle.ages), 70)
        oracle.ages = [age + 70 for age in oracle.ages]

    def redrive() -> None:
        count = chance.randint(1, 2)
        assert queue.admin.redrive(count) == min(count, len(oracle.ages))
        oracle.ages = oracle.ages[: -min(count, len(oracle.ages)) or None]

    def discard() -> None:
        if oracle.ages:
            at = chance.randrange(len(oracle.ages))
            queue.admin.discard([queue.admin.dead_letters(1000)[at].id])
            del oracle.ages[at]

    def resume() -> None:
        queue.admin.resume()
        oracle.paused = False

    def pause() -> None:
        queue.admin.pause()
        oracle.paused = True

    calls = [claim] * 4 + [nack] * 4 + [pass_time] * 3 + [resume] * 2 + [redrive, discard, pause]
    for _ in range(250):
        chance.choice(calls)()
        found = queue.stats()
        assert (found.dead, found.paused) == (len(oracle.ages), oracle.paused)
    assert len(lines(caplog)) == oracle.trips > 2


@pytest.mark.parametrize("discipline", ABLE)
def test_it_is_switched_on_and_off_on_a_live_queue(world: World, discipline: str) -> None:
    queue = world.open(discipline, "q", CONFIGS[discipline])
    fail(world, queue, 5, discipline=discipline)
    operator = world.open(discipline)
    operator.admin.configure(["pause_after_dead=6 in 10m"])
    assert operator.admin.settings().in_force["pause_after_dead"] == Breaker(6, timedelta(minutes=10))
    engine_of(queue).look_at = 0
    queue.backlog()
    fail(world, queue, discipline=discipline)
    assert queue.stats().paused, "letters from before the setting count"
    queue.admin.resume()
    operator.admin.configure(["pause_after_dead=none"])
    engine_of(queue).look_at = 0
    queue.backlog()
    fail(world, queue, 2, discipline=discipline)
    assert not queue.stats().paused


def lose_the_report(queue: Any) -> list[int]:
    """Lose the first reply with a report, after the script had its effect; return a list that gets an item then."""
    driver, lost = driver_of(queue), list[int]()
    send = driver._send

    def cut(replies: Any) -> Any:
        if not lost and b"\\t" in repr(replies).encode():
            lost.append(1)
            raise redis.ConnectionError("cut")
        return replies

    async def cut_later(*write: Any, **about: Any) -> Any:
        return cut(await send(*write, **about))

    def cut_at_once(*write: Any, **about: Any) -> Any:
        return cut(send(*write, **about))

    driver._send = cut_later if inspect.iscoroutinefunction(send) else cut_at_once
    return lost


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("discipline", ABLE)
def test_a_call_whose_reply_was_lost_pauses_and_says_so_once(
    world: World, discipline: str, how: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = opened(world, discipline)
    fail(world, queue, 2, discipline=discipline)
    client = world.open(discipline, "q", CONFIGS[discipline])
    client.publish({"n": 1})
    lost = lose_the_report(client)
    monkeypatch.setattr(world, "open", lambda *_: client)
    WAYS[how](world, client, discipline)
    assert lost
    assert (queue.stats().dead, queue.stats().paused) == (3, True)
    client.close()
    assert pauses(queue) == [("breaker", REASON)]
    assert len(lines(caplog)) == 1


@pytest.mark.parametrize("discipline", ABLE)
def test_the_reason_is_that_of_the_script_although_the_setting_changed_with_its_reply(
    world: World, discipline: str
) -> None:
    queue = opened(world, discipline)
    fail(world, queue, 2, discipline=discipline)
    queue.publish({"n": 1})
    lease = queue.claim()
    world.open(discipline).admin.configure(reset="pause_after_dead")
    engine_of(queue).look_at = 0  # so that the settings are read with this call
    queue.nack(lease)
    assert queue.config.pause_after_dead is None
    assert queue.stats().paused
    assert pauses(queue) == [("breaker", REASON)]


@pytest.mark.parametrize("discipline", ABLE)
def test_it_cannot_count_more_letters_than_the_queue_keeps(world: World, discipline: str) -> None:
    queue = opened(world, discipline)
    with pytest.raises(ConfigurationError, match="pause_after_dead counts 3 dead letters, but max_dead keeps 2"):
        queue.admin.configure(max_dead=2)
    for text in ("20", "20 per hour", "20 in an hour", "0 in 1h", "1001 in 1h", "20 in 0s", True):
        with pytest.raises(ConfigurationError, match=r"pause_after_dead must be a Breaker, .* `20 in 10m`"):
            queue.admin.configure(pause_after_dead=text)
    queue.admin.configure(max_dead=3)
    queue.publish_many([{"n": n} for n in range(5)])
    queue.nack(queue.claim(max_messages=5))
    lease = queue.claim(max_messages=5)
    for message in lease.messages if lease else ():
        queue.nack(lease, [message])
    assert (queue.stats().dead, queue.stats().paused) == (3, True)


def test_letters_without_a_time_trip_nothing_and_imported_ones_count(world: World) -> None:
    queue = opened(world, "leased")
    fail(world, queue, 2)
    world.client.lpush(dead_key("leased"), b"no envelope", b"")
    fail(world, queue)
    assert not queue.stats().paused
    fail(world, queue)
    assert not queue.stats().paused, "the third newest is no envelope"
    fail(world, queue)
    assert queue.stats().paused
    queue.admin.resume()
    copy = world.queue("copy", CONFIGS["leased"])
    copy.admin.configure(pause_after_dead="3 in 10m")
    letters = [StoredMessage("dead", letter) for letter in world.client.lrange(dead_key("leased"), 0, 1)]
    tools = tools_of(copy)
    tools.import_chunk("a", "", "open 1 1 - -", [tools.import_entry(letter) for letter in letters])
    assert not copy.stats().paused
    fail(world, copy)
    assert copy.stats().paused


def test_messages_that_expired_while_they_waited_are_no_failures(world: World) -> None:
    """They became dead letters although no consumer failed; a pause would let more of them expire."""
    queue = opened(world, "leased", groups="fair")
    fail(world, queue, 2)
    queue.publish_many([{"n": n} for n in range(9)], expires=0.001)
    time.sleep(0.02)
    assert queue.claim() is None
    assert (queue.stats().dead, queue.stats().paused) == (11, False)
    die_earlier(world, "leased", 11, 60)
    fail(world, queue)
    assert queue.stats().paused, "three failed, although nine of other kinds are between them"
    queue.admin.resume()
    queue.admin.purge("dead")
    queue.publish_many([{"n": n} for n in range(9)], expires=0.001)
    time.sleep(0.02)
    queue.backlog()
    fail(world, queue, 2)
    assert (queue.stats().dead, queue.stats().paused) == (11, False)


def test_a_crash_loop_under_one_id_ends_and_counts(world: World) -> None:
    queue = opened(world, "leased", max_deliveries=2)
    queue.publish_many(["a", "b", "c", "d"])
    claims = [world.queue().claim(lease_id="job") for _ in range(7)]
    assert [lease and lease.message.payload for lease in claims] == ["a", "a", "b", "b", "c", "c", None]
    assert (queue.stats().dead, queue.stats().paused, queue.stats().ready) == (3, True, 1)


def test_the_event_comes_before_those_of_the_letters(world: World) -> None:
    events: list[QueueEvent] = []
    queue = world.queue(config=CONFIGS["leased"], on_event=events.append)
    queue.admin.configure(pause_after_dead=Breaker(1, 60))
    fail(world, queue)
    queue.admin.resume()
    queue.admin.pause()
    (pause,) = [event for event in events if event.operation == "pause"]
    assert (pause.operation, pause.reason, pause.count) == (Operation.PAUSE, "1 dead letter within 1 minute", 1)
    assert [event.operation for event in events] == ["publish", "claim", "pause", "nack", "dead"]


@pytest.mark.parametrize("loop", ["process", "run"])
@pytest.mark.parametrize("groups", [None, "fair", "exclusive"])
def test_a_loop_stops_claiming_and_goes_on_after_a_resume(world: World, groups: str | None, loop: str) -> None:
    queue = opened(world, "leased", groups=groups)
    for n in range(8):
        queue.publish({"n": n}, group="ab"[n % 2] if groups else None)
    stop, bad, seen = threading.Event(), threading.Event(), list[int]()
    bad.set()

    def handle(message: Any) -> None:
        seen.append(message.payload["n"])
        if bad.is_set():
            raise OSError("bad deploy")

    def process() -> None:
        while not stop.is_set():
            with suppress(OSError), queue.process(wait=5) as batch:
                for message in batch:
                    handle(message)

    def run() -> None:
        queue.run(handler_of(world.flavour, handle), stop=stop)

    running = world.in_background({"process": process, "run": run}[loop])
    operator = world.queue()
    eventually(lambda: operator.stats().paused)
    blocked(world, 1)
    assert (len(seen), operator.stats().dead, operator.stats().ready) == (3, 3, 5)
    bad.clear()
    operator.admin.redrive()
    operator.admin.resume()
    eventually(lambda: not any(operator.stats()[:4]) and operator.stats().dead == 0)
    assert sorted(seen[3:]) == list(range(8))
    stop.set()
    operator.publish({"n": 8})
    running.result(60)


@pytest.mark.parametrize("groups", [None, "concurrent 2"])
def test_a_waiting_claim_gets_nothing_of_what_returns_after_the_pause(world: World, groups: str | None) -> None:
    queue = opened(world, "leased", groups=groups)
    queue.publish_many([{"n": n} for n in range(10)])
    lease = queue.claim(max_messages=10)
    waiting = world.in_background(world.queue(config=CONFIGS["leased"]).claim, wait=60)
    blocked(world, 1)
    queue.nack(lease, lease.messages[:4])
    assert queue.stats().paused
    queue.release(lease)
    assert queue.stats().ready == 6
    assert not waiting.done()
    queue.admin.resume()
    assert waiting.result(60).count == 1
