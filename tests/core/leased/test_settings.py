"""Settings that are stored with the queue: all clients follow them, whatever their own configs say."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from math import inf
from typing import Any

import pytest

from rmq_core import ConfigurationError, LeasedConfig, Overflow, QueueFull, backlogs, exponential
from rmq_core._version import __version__
from rmq_core.admin.configuring import apply, configure
from rmq_core.envelope.codec import nonce
from rmq_core.errors import WrongKeyType
from rmq_core.exchange.frames import plan
from rmq_core.kernel import settings as following
from rmq_core.leased.aio import read_all
from rmq_core.policy import Backoff, Breaker, of_text
from tests.core.leases import blocked, driver_of, engine_of, eventually, expire, handler_of, key, run
from tests.core.worlds import World

STORED = "max_deliveries=1"


@pytest.fixture(autouse=True)
def _told() -> None:
    following._told.clear()


def soon(queue: Any) -> None:
    """Let the next call of a queue object read the settings again, as it does a second after it read them last."""
    engine_of(queue).look_at = -inf


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def claims(queue: Any, _: str) -> None:
    assert queue.claim() is None


def expires(queue: Any, lease_id: str) -> None:
    assert queue.admin.expire_lease(lease_id).dead == 1


RECLAIMS: dict[str, Callable[[Any, str], object]] = {
    "claim": claims,
    "claim by its id": lambda queue, lease_id: queue.claim(lease_id=lease_id),
    "backlog": lambda queue, _: queue.backlog(),
    "operator": expires,
}


@pytest.mark.parametrize("own", [3, None], ids=["three", "no limit"])
@pytest.mark.parametrize("how", RECLAIMS)
def test_whoever_reclaims_the_stored_number_of_deliveries_decides(world: World, how: str, own: int | None) -> None:
    world.queue().admin.configure(max_deliveries=1)
    world.queue(config=LeasedConfig(max_deliveries=7)).publish("x")
    lease = world.queue(config=LeasedConfig(max_deliveries=7)).claim(lease_id="job")
    expire(world, lease.id)
    other = world.queue(config=LeasedConfig(max_deliveries=own))
    RECLAIMS[how](other, "job")
    assert other.stats().dead == 1


@pytest.mark.parametrize("reading", ["backlogs", "scrape"])
def test_a_reading_of_many_queues_reclaims_with_what_each_of_them_stores(world: World, reading: str) -> None:
    for name, most in (("one", 1), ("two", 2), ("none", None)):
        queue = world.queue(name)
        if most:
            queue.admin.configure(max_deliveries=most)
        queue.publish("x")
        expire(world, queue.claim().id, name)
    configs = dict.fromkeys(("one", "two", "none"), LeasedConfig(max_deliveries=9))
    if reading == "backlogs":
        backlogs(world.url, configs, configs["one"])
    else:
        asyncio.run(read_all(world.url, configs))
    assert [world.queue(name).stats().ready for name in configs] == [0, 1, 1]


def test_a_queue_without_stored_settings_has_those_of_each_program(world: World) -> None:
    strict, lenient = world.queue(config=LeasedConfig(max_deliveries=1)), world.queue()
    strict.publish("x")
    lenient.nack(lenient.claim())
    assert lenient.stats()[:4] == (1, 0, 0, 0)
    strict.nack(strict.claim())
    assert strict.stats().dead == 1
    assert not world.client.exists(key("settings"), key("differing"))


def test_the_first_call_follows_every_setting(world: World) -> None:
    world.queue().admin.configure(
        dedup=True, max_ready=2, backoff=exponential(60, 60, 0), completed_log=5, failed_log=6, max_dead=7,
        max_hold=timedelta(hours=1), journal=9, dedup_window="2h",
    )  # fmt: skip
    for accepted in (True, False):
        assert world.queue().publish("same").accepted is accepted
    world.queue().publish("other")
    with pytest.raises(QueueFull, match="max_ready=2"):
        world.queue().publish("third")
    holder = world.queue()
    first, second = holder.claim(), holder.claim()
    holder.ack(first)
    holder.nack(second)
    assert holder.stats()[:4] == (0, 1, 0, 0)
    assert world.client.llen(key("completed")) == world.client.llen(key("failed")) == 1
    assert [entry.event for entry in holder.admin.journal().entries] == [
        "published", "published", "claimed", "claimed", "acked", "nacked",
    ]  # fmt: skip
    in_force = engine_of(holder).config
    assert (in_force.max_hold, in_force.max_dead) == (timedelta(hours=1), 7)
    assert engine_of(holder).dedup_window_ms == 7_200_000


def test_a_change_is_in_force_for_running_clients_with_their_next_calls(world: World) -> None:
    """A call reads the settings in the write that it sends anyway, so the call after it follows them."""
    queue = world.queue()
    queue.publish_many(["a", "b", "c"])
    lease = queue.claim(max_messages=3)
    world.queue().admin.configure(max_deliveries=1)
    soon(queue)
    queue.nack(lease, lease.messages[:1])
    assert queue.stats().dead == 0
    queue.nack(lease, lease.messages[1:2])
    assert queue.stats().dead == 1
    world.queue().admin.configure(reset="max_deliveries")
    soon(queue)
    queue.extend(lease)
    queue.nack(lease)
    assert queue.stats().dead == 1


def test_a_waiting_claim_follows_what_was_changed_while_it_waited(world: World) -> None:
    queue = world.queue()
    assert queue.claim() is None
    waits = world.in_background(queue.claim, wait=60)
    blocked(world, 1)
    other = world.queue()
    other.admin.configure(max_deliveries=1)
    other.publish("x")
    queue.nack(waits.result(60))
    assert queue.stats().dead == 1


def test_a_publisher_that_waits_for_room_gets_it_when_the_bound_is_raised(world: World) -> None:
    operator = world.queue()
    operator.admin.configure(max_ready=1, overflow=Overflow.BLOCK(300))
    queue = world.queue()
    queue.publish("first")
    waits = [world.in_background(world.queue().publish, "x"), world.in_background(world.queue().publish_many, ["y"])]
    stage = world.queue()
    made = stage.stage(["z"])
    waits.append(world.in_background(stage.publish_staged, [made]))
    assert not any(each.done() for each in waits)
    operator.admin.configure(max_ready=9)
    for each in waits:
        each.result(60)
    assert queue.stats().ready == 4


def test_settings_are_read_about_once_a_second_in_writes_that_are_sent_anyway(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    queue.ack(queue.claim())  # the scripts are on the server
    queue.publish("x")
    engine_of(queue).present_at = {}
    with world.client.monitor() as commands:
        for _ in range(5):
            queue.backlog()
        soon(queue)
        queue.ack(queue.claim())
        world.client.echo("end")
        seen = []
        while not seen or seen[-1]["command"] != "ECHO end":
            seen.append(commands.next_command())
    reads = [each["command"] for each in seen if "settings" in each["command"] and each["command"].startswith("GET")]
    assert reads == [f"GET {key('settings')}"]


def test_a_program_that_passes_another_value_is_told_once_and_named(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.queue().admin.configure(max_deliveries=5, dedup_window=60, journal="1h")
    agrees = LeasedConfig(max_deliveries=5, dedup_window=timedelta(minutes=1), lease=9, max_dead=8)
    world.queue(config=agrees).publish("x")
    assert (warnings(caplog), world.queue().admin.settings().differing) == ([], ())
    for _ in range(3):
        queue = world.queue(config=LeasedConfig(max_deliveries=None, dedup_window=61))
        queue.publish("x")
        queue.publish("y")
    (told,) = warnings(caplog)
    passes = "max_deliveries=null, dedup_window=61"
    assert "'q'" in told
    assert passes in told
    (named,) = world.queue().admin.settings().differing
    assert named.passes == passes
    assert "@" in named.program
    assert 0 < world.client.ttl(key("differing")) <= 86_400


def test_settings_are_what_was_stored_and_what_is_in_force(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_dead=3, max_ready=4))
    stored = queue.admin.configure(["overflow=block 5", "backoff=exponential 1 60 0"], max_ready=9, max_deliveries=None)
    assert stored.stored == {
        "overflow": Overflow.BLOCK(5), "backoff": exponential(1, 60, 0), "max_ready": 9, "max_deliveries": None,
    }  # fmt: skip
    assert (stored.in_force["max_dead"], stored.in_force["max_ready"]) == (3, 9)
    assert world.queue().admin.settings().in_force["max_dead"] == 100_000
    assert queue.admin.configure(reset=["overflow", "backoff"]).stored == {"max_ready": 9, "max_deliveries": None}
    assert queue.admin.configure(reset="max_ready, max_deliveries").stored == {}
    assert not world.client.exists(key("settings"))
    texts = [mark.text for mark in queue.admin.marks() if mark.kind == "configure"]
    assert texts == [
        "backoff=exponential 1 60 0, max_deliveries=null, max_ready=9, overflow=block 5",
        "backoff reset, overflow reset",
        "max_deliveries reset, max_ready reset",
    ]


class Own(Backoff):
    def delay(self, deliveries: int) -> float:
        return deliveries


@pytest.mark.parametrize(
    ("given", "named", "says"),
    [
        ([], {"max_deliveries": 0}, "max_deliveries must be"),
        (["max_deliveries=many"], {}, "max_deliveries must be"),
        ([], {"dedup": 1}, "dedup must be"),
        ([], {"backoff": Own()}, "backoff must be"),
        (["journal=-1s"], {}, "journal must be"),
        ([], {"overflow": Overflow.BLOCK(5)}, "overflow needs max_ready"),
        (["max_ready=5", "overflow=drop_oldest", "dedup=true"], {}, "overflow DROP_OLDEST"),
        ([], {"lease": 5}, "lease is each program's own"),
        ([], {"speed": 5}, "there is no speed"),
        (["max_deliveries"], {}, "name=value"),
    ],
)
def test_a_wrong_setting_is_refused_and_nothing_is_stored(
    world: World, given: list[str], named: dict[str, Any], says: str
) -> None:
    queue = world.queue()
    with pytest.raises(ConfigurationError, match=says):
        queue.admin.configure(given, **named)
    assert not world.client.exists(key("settings"))


def test_a_setting_that_a_stored_one_needs_is_not_removed(world: World) -> None:
    queue = world.queue()
    queue.admin.configure(max_ready=5, overflow=Overflow.BLOCK(1))
    with pytest.raises(ConfigurationError, match="overflow needs max_ready"):
        world.queue().admin.configure(reset=["max_ready"])
    with pytest.raises(ConfigurationError, match="there is no speed"):
        queue.admin.configure(reset=["speed"])


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        ({"max_deliveries": 1, "colour": "fair"}, "knows no colour"),
        ({"max_deliveries": 1, "max_dead": {"of": 3}}, "max_dead must be"),
        ({"max_deliveries": 1, "overflow": "drop_oldest", "max_ready": 3}, "DROP_OLDEST cannot be combined"),
    ],
)
def test_a_setting_that_cannot_be_followed_is_ignored_with_a_line_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture, stored: dict[str, Any], says: str
) -> None:
    world.client.set(key("settings"), json.dumps(stored))
    queue = world.queue(config=LeasedConfig(dedup=True))
    queue.publish("x")
    assert any(says in text for text in warnings(caplog))
    queue.nack(queue.claim())
    assert queue.stats().dead == 1


def test_a_change_keeps_the_settings_of_a_later_version(world: World) -> None:
    later = {"colour": "fair"}
    world.client.set(key("settings"), json.dumps(later))
    world.queue().admin.configure(failed_log=3)
    assert json.loads(world.client.get(key("settings"))) == {**later, "failed_log": 3}


@pytest.mark.parametrize("kind", ["list", "no json", "no object"])
def test_what_is_no_setting_under_the_key_stops_only_changes(
    world: World, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    if kind == "list":
        world.client.rpush(key("settings"), "x")
    else:
        world.client.set(key("settings"), "}" if kind == "no json" else "[1]")
    queue = world.queue(config=LeasedConfig(max_deliveries=1))
    queue.publish("x")
    soon(queue)
    queue.nack(queue.claim())
    assert queue.stats().dead == 1
    assert len(warnings(caplog)) == 1
    for call in (lambda: queue.admin.configure(max_deliveries=3), queue.admin.settings):
        with pytest.raises(WrongKeyType):
            call()


def test_a_user_who_may_not_read_the_settings_works_with_his_own(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.queue().admin.configure(max_deliveries=1)
    name, word = "settingless", nonce()
    world.client.acl_setuser(
        name, enabled=True, reset=True, passwords=[f"+{word}"], categories=["+@all"], channels=["*"],
        keys=["rmq:queues*", "rmq:{q}:[^s]*", "rmq:{q}:sl*", "rmq:{q}:settled*"],
    )  # fmt: skip
    try:
        server = world.url.replace("://", f"://{name}:{word}@", 1)
        queue = world.queue(settings=server)
        queue.publish("x")
        for _ in range(2):
            soon(queue)
            queue.nack(queue.claim())
        assert queue.stats()[:4] == (1, 0, 0, 0)
        assert len(warnings(caplog)) == 1
        assert "cannot be read" in warnings(caplog)[0]
    finally:
        world.client.acl_deluser(name)


def test_settings_survive_a_purge_and_go_with_the_queue(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=3))
    queue.admin.configure(max_deliveries=1)
    queue.publish("x")
    queue.admin.purge("ready")
    assert world.queue().admin.settings().stored == {"max_deliveries": 1}
    world.queue(config=LeasedConfig(max_deliveries=4)).stats()
    queue.admin.unregister()
    assert not world.client.exists(key("settings"), key("differing"))
    soon(queue)
    queue.publish("y")
    queue.nack(queue.claim())
    assert queue.stats()[:4] == (1, 0, 0, 0)


def ended(world: World, queue: Any, exchange: Any, reply: Any) -> Any:
    """Return what an operation returns that goes on with a reply."""
    try:
        while True:
            reply = run(world, queue, exchange.send(reply))
    except StopIteration as done:
        return done.value


def test_operators_who_change_different_settings_at_once_change_both(world: World) -> None:
    operator = world.queue()
    operator.publish("x")
    changing = configure(engine_of(operator), max_dead=6)
    before = run(world, operator, next(changing))
    world.queue().admin.configure(max_deliveries=5)
    assert ended(world, operator, changing, before).stored == {"max_deliveries": 5, "max_dead": 6}


def test_running_consumers_of_a_queue_follow_a_change(world: World) -> None:
    """A message that always fails is delivered for ever, until a limit is stored."""
    config = LeasedConfig(max_deliveries=None)
    seen: list[Any] = []

    def fails(message: Any) -> None:
        seen.append(message.payload)
        raise ValueError

    stop = threading.Event()
    run_it = partial(world.queue(config=config).run, handler_of(world.flavour, fails), stop=stop, wait=1)
    done = world.in_background(run_it)
    operator = world.queue()
    operator.publish("bad")
    eventually(lambda: len(seen) > 20)
    operator.admin.configure(max_deliveries=2)
    eventually(lambda: operator.stats().dead == 1)
    stop.set()
    done.result(60)


def test_a_late_resend_of_a_change_does_not_undo_a_later_one(world: World) -> None:
    operator, other = world.queue(), world.queue()
    operator.admin.configure(max_deliveries=3)
    change = next(apply(engine_of(operator), b'{"max_deliveries":3}', {"max_deliveries": 5}))
    driver = driver_of(operator)
    packed = plan(change, driver._slots).packed(whole_scripts=True)
    loop = getattr(world, "loop", None)
    send = partial(loop.call, driver._send) if loop else driver._send
    assert send(packed, 1, 0) == [b"stored"]
    other.admin.configure(max_deliveries=3)
    assert send(packed, 1, 0) == [b"stored"]
    assert other.admin.settings().stored == {"max_deliveries": 3}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("90s", timedelta(seconds=90)), ("1.5 h", timedelta(hours=1.5)), ("7d", timedelta(days=7)), ("none", None),
        ("raise", Overflow.RAISE), ("block 2.5", Overflow.BLOCK(2.5)), ("exponential", exponential()),
        ("exponential 2 9", exponential(2, 9)), ("block", "block"), ("block x", "block x"),
        ("20 in 10m", Breaker(20, 600)), ("1 in 1.5h", Breaker(1, timedelta(minutes=90))),
        ("0 in 10m", "0 in 10m"), ("20 in 10", "20 in 10"), ("20 in raise", "20 in raise"),
        ("exponential -1", "exponential -1"), ("99999999999999d", "99999999999999d"), (3, 3),
    ],
)  # fmt: skip
def test_a_text_stands_for_a_value(text: Any, value: Any) -> None:
    assert of_text(text) == value


def test_the_config_of_a_queue_object_is_the_one_in_force(world: World) -> None:
    world.queue().admin.configure(max_deliveries=5)
    queue = world.queue(config=LeasedConfig(max_deliveries=3, lease=9))
    assert queue.config.max_deliveries == 3
    queue.stats()
    assert (queue.config.max_deliveries, queue.config.lease) == (5, 9)


def known(queue: Any) -> set[tuple[str, str, int, str, str]]:
    return {client[:5] for client in queue.admin.clients()}


def client_of(role: str, settings: str = "") -> tuple[str, str, int, str, str]:
    return (role, os.uname().nodename, os.getpid(), __version__, settings)


@pytest.mark.parametrize("layout", [{}, {"groups": "fair"}], ids=["list", "groups"])
def test_who_waits_for_messages_is_known_and_who_published_some(world: World, layout: dict[str, Any]) -> None:
    looking = world.queue()
    if layout:
        looking.admin.configure(**layout)
    assert looking.admin.clients() == []
    idle = world.queue(config=LeasedConfig(lease=77))
    waiting = world.in_background(idle.claim, wait=300)
    eventually(lambda: known(looking) == {client_of("consumer", "lease=77")})
    publishing = world.queue(config=LeasedConfig(max_payload_bytes=500, dedup_key=str))
    publishing.stats()
    soon(publishing)
    publishing.publish("x")
    passed = client_of("publisher", "max_payload_bytes=500")
    assert known(looking) == {client_of("consumer", "lease=77"), passed}
    assert waiting.result().count == 1
    assert 0 < world.client.ttl(key("clients")) <= 86_400


def test_the_name_of_a_connection_names_its_program(world: World) -> None:
    looking = world.queue()
    named = world.queue(settings=f"{world.url}{'&' if '?' in world.url else '?'}client_name=night-worker")
    for queue in (looking, named):
        queue.stats()
        soon(queue)
        queue.publish("x")
    assert [each.name for each in looking.admin.clients()] == ["night-worker"]  # the latest record of this process
    soon(named)
    named.claim()
    assert {(each.role, each.name) for each in looking.admin.clients()} >= {("consumer", "night-worker")}


@pytest.mark.parametrize("layout", [{}, {"groups": "fair"}, {"shards": 3}], ids=["list", "groups", "shards"])
def test_programs_that_end_within_a_second_are_known(world: World, layout: dict[str, Any]) -> None:
    looking = world.queue()
    if layout:
        looking.admin.configure(**layout)
    for publish in (lambda queue: queue.publish("x"), lambda queue: queue.publish_many(["x"] * 3000)):
        publish(world.queue())
        assert known(looking) == {client_of("publisher")}
        world.client.delete(key("clients"))
    both = world.queue()
    both.ack(both.claim())
    both.publish("y")
    assert known(looking) == {client_of("consumer"), client_of("publisher")}


@pytest.mark.parametrize("discipline", ["jobs", "reliable"])
def test_the_clients_of_other_queues_with_stored_settings_are_known_too(world: World, discipline: str) -> None:
    queue = world.open(discipline)
    queue.stats()
    for call in (lambda: queue.publish("x"), lambda: queue.ack(queue.claim(owner="worker"))):
        for _ in range(2):  # the first call may prepare the queue before
            queue.publish("x")
            soon(queue)
            call()
    assert known(queue) == {client_of("publisher"), client_of("consumer")}


def test_a_program_records_itself_once_a_minute_with_a_write_that_it_sends_anyway(world: World) -> None:
    queue = world.queue()
    queue.stats()

    def recorded() -> float | None:
        soon(queue)
        queue.publish("x")
        found: float | None = world.client.zscore(key("clients"), "\t".join(map(str, client_of("publisher"))))
        return found

    first = recorded()
    assert first
    assert [recorded() for _ in range(5)] == [first] * 5
    engine_of(queue).present_at = dict.fromkeys(("publisher", "consumer"), -inf)  # as a minute later
    world.client.zincrby(key("clients"), -60_000, "\t".join(map(str, client_of("publisher"))))
    assert recorded() >= first


def test_a_consumer_whose_nacks_read_the_settings_is_recorded_by_its_claims(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    lease = queue.claim()
    world.client.delete(key("clients"))
    engine_of(queue).present_at = dict.fromkeys(("publisher", "consumer"), -inf)  # as a minute later
    soon(queue)
    queue.nack(lease)
    assert queue.admin.clients() == []
    queue.claim()
    assert [each.role for each in queue.admin.clients()] == ["consumer"]


def test_looking_at_a_queue_is_not_using_it(world: World) -> None:
    queue = world.queue()
    for look in (queue.stats, queue.backlog, queue.admin.peek, queue.admin.leases):
        soon(queue)
        look()
    assert queue.admin.clients() == []


def test_repairing_a_queue_is_not_consuming_from_it(world: World) -> None:
    queue, operator = world.queue(), world.queue()
    queue.publish_many([*"abcd"])
    leases = [queue.claim(lease_id=name, owner=name) for name in "abcd"]
    world.client.delete(key("clients"))
    for repair in (
        lambda: operator.admin.release_lease("a"),
        lambda: operator.admin.expire_lease("b"),
        lambda: operator.admin.release_leases("c"),
        lambda: operator.admin.dead_letter(leases[3].messages[0].id),
    ):
        soon(operator)
        repair()
    assert (queue.stats().ready, queue.stats().dead) == (3, 1)
    assert operator.admin.clients() == []


def test_a_user_who_may_not_record_itself_still_follows_the_settings(world: World) -> None:
    name, word = "recorderless", nonce()
    world.queue().publish("x")
    world.queue().claim()  # the scripts are on the server
    world.client.delete(key("clients"))
    world.client.acl_setuser(
        name, enabled=True, reset=True, passwords=[f"+{word}"], categories=["+@all"], channels=["*"], keys=["*"],
        commands=["-eval"],
    )  # fmt: skip
    try:
        queue = world.queue(settings=world.url.replace("://", f"://{name}:{word}@", 1))
        queue.publish("x")
        world.queue().admin.configure(max_deliveries=1)
        for _ in range(2):
            soon(queue)
            queue.publish("x")
        assert queue.config.max_deliveries == 1
        assert not engine_of(queue).present_at  # it is not tried again
        world.queue().admin.configure(max_deliveries=2)
        soon(queue)
        queue.publish("x")
        assert (queue.config.max_deliveries, queue.admin.clients()) == (2, [])
    finally:
        world.client.acl_deluser(name)


def test_a_full_server_keeps_no_record_and_tells_the_settings(world: World) -> None:
    queue = world.queue()
    queue.publish_many(["x", "y"])
    queue.ack(queue.claim())  # the script is on the server
    lease = queue.claim()
    world.client.delete(key("clients"))
    queue = world.queue()
    queue.admin.configure(max_deliveries=1)
    before = world.client.config_get("maxmemory")["maxmemory"]
    world.client.config_set("maxmemory", 1)
    try:
        queue.ack(lease)
        assert queue.config.max_deliveries == 1
        assert queue.admin.clients() == []
    finally:
        world.client.config_set("maxmemory", before)


def test_a_queue_that_is_forgotten_forgets_its_clients(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    queue.ack(queue.claim())
    assert known(queue) == {client_of("publisher"), client_of("consumer")}
    queue.admin.unregister()
    assert not world.client.exists(key("clients"))
