"""Large leases are read by plain commands: they return what the script returns, and never less than the holder has."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
import redis

import rmq_core.asyncio
from rmq_core import Lease, LeasedConfig, LeasedQueue, LeaseLost, MessageRef
from rmq_core.exchange import Call, Exchange, Pipeline
from rmq_core.exchange.frames import frame
from rmq_core.exchange.scripts import Slots
from rmq_core.leased.inspecting import read
from rmq_core.leased.settling import nack
from rmq_core.messages import NewMessage
from tests.core.leases import engine_of, key
from tests.core.tenants import PASSWORD, USER, denied, grant
from tests.core.worlds import Loop, World
from tests.servers import Cluster

MANY = 2_500
QUIET = LeasedConfig(history=False)  # the history is flushed by a script
MIB = 1 << 20


def random_payloads(chance: random.Random, count: int) -> list[Any]:
    kinds: list[Callable[[], Any]] = [
        lambda: "",
        lambda: b"",
        lambda: "grüße 🎈 " * chance.randrange(9),
        lambda: chance.randbytes(chance.randrange(90)),
        lambda: {"number": chance.randrange(999), "of": ["a b", None]},
        lambda: "x" * chance.randrange(200),
    ]
    return [chance.choice(kinds)() for _ in range(count)]


def held(queue: Any, payloads: list[Any], lease_id: str = "job") -> Lease:
    headers = [{}, {}, {"a": "ü"}, {"source": "test", "b": "2"}]
    queue.publish_many([NewMessage(each, headers=headers[at % len(headers)]) for at, each in enumerate(payloads)])
    lease: Lease = queue.claim(max_messages=len(payloads), lease_id=lease_id)
    assert lease.count == len(payloads)
    return replace(lease, envelopes=None)


def scripts_during(client: redis.Redis, call: Callable[[], object]) -> int:
    """Return how many scripts run during a call; a server that did not know one yet is asked twice."""
    client.config_resetstat()
    call()
    asked = [each for name, each in client.info("commandstats").items() if "_eval" in name]
    return sum(int(each["calls"]) - int(each["failed_calls"]) for each in asked)


def assert_read_as_by_the_script(queue: Any, lease: Lease, client: redis.Redis, *, scripts: int) -> None:
    """Read a lease twice. scripts: how many the first reading runs; the second one, which knows sizes, runs none."""
    lease.state.sizes = None
    expected = queue.admin.browse_lease(lease.id, 0, lease.count)  # by the script
    assert expected
    found: list[Any] = []
    assert scripts_during(client, lambda: found.append(queue.read(lease))) == scripts
    assert scripts_during(client, lambda: found.append(list(queue.messages(lease)))) == 0
    assert found == [expected, expected]
    at = lease.count // 3
    assert queue.read(lease, at, at + 9) == queue.admin.browse_lease(lease.id, at, at + 9)


@pytest.mark.parametrize("seed", range(5))
def test_plain_commands_return_what_the_script_returns(world: World, seed: int) -> None:
    chance, queue = random.Random(seed), world.queue(config=QUIET)
    lease = held(queue, random_payloads(chance, MANY))
    if seed in (1, 4):  # with a history, and then in an isolated group
        for _ in range(2):
            queue.nack(lease, reason="why\tnot\n")
            lease = replace(queue.claim(max_messages=MANY), envelopes=None)
        assert lease.isolation is not None
        assert lease.count == MANY // 2
    if seed in (2, 4):  # half of them are settled
        queue.ack(lease, [message for message in queue.read(lease) if chance.random() < 0.5])
        queue.nack(lease, queue.read(lease, 0, 20)[:9], reason="these alone")
    if seed == 3:
        lease = replace(queue.claim(lease_id="job"), envelopes=None)
    assert_read_as_by_the_script(queue, lease, world.client, scripts=1)


@pytest.mark.parametrize("settled", [False, True])
def test_a_table_has_what_single_messages_have(world: World, *, settled: bool) -> None:
    chance, queue = random.Random(5), world.queue(config=QUIET)
    lease = held(queue, random_payloads(chance, MANY))
    if settled:
        queue.ack(lease, [message for message in queue.read(lease) if chance.random() < 0.5])
    table, expected = queue.read_arrow(lease, 5, 2_400), queue.read(lease, 5, 2_400)
    assert [(row["message_id"], row["payload"], dict(row["headers"]), row["index"]) for row in table.to_pylist()] == [
        (message.id, message.raw, message.headers, message.index) for message in expected
    ]
    queue.adopt("job", owner="thief")
    with pytest.raises(LeaseLost):
        queue.read_arrow(lease)


def test_jobs_are_read_as_a_table_too(world: World) -> None:
    queue = world.open("jobs")
    queue.publish_many([{"number": number} for number in range(50)])
    lease = queue.claim(max_messages=50, lease_id="job")
    queue.ack(lease, queue.read(lease)[::2])
    rows = queue.read_arrow(lease).to_pylist()
    assert [(row["message_id"], row["payload"], row["index"], row["deliveries"]) for row in rows] == [
        (message.id, message.raw, message.index, message.deliveries) for message in queue.read(lease)
    ]


@pytest.mark.parametrize("discipline", ["leased", "reliable"])
def test_the_json_of_a_batch_becomes_columns_and_what_does_not_fit_can_be_settled_apart(
    world: World, discipline: str
) -> None:
    queue = world.open(discipline)
    queue.publish_many([{"n": 1}, {"n": "one"}, {"n": 2}])
    with queue.process(max_messages=3) as batch:
        good, corrupt = batch.to_arrow(pa.schema([("n", pa.int64())]))
        (row,) = corrupt.to_pylist()
        batch.release(MessageRef(row["lease"], row["index"], row["message_id"]))
    assert good["value"].to_pylist() == [{"n": 1}, {"n": 2}]
    assert (batch.acked, batch.released) == (2, 1)


@pytest.mark.parametrize("size", [3 * MIB, 20_000])
def test_large_messages_among_small_ones_are_read_by_the_script(world: World, size: int) -> None:
    queue = world.queue(config=LeasedConfig(max_payload_bytes=4 * MIB, history=False))
    payloads = [*["small"] * 2_000, *["x" * size] * 5, *["small"] * 2_000]
    lease = held(queue, payloads)
    found: list[Any] = []
    assert scripts_during(world.client, lambda: found.extend(queue.messages(lease, 500))) > 3
    assert [message.payload for message in found] == payloads


class Wrapped(redis.Redis):
    """A client that is not redis-py's own, so that each command is sent alone."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]


def test_a_client_of_another_class_reads_the_same(redis_client: redis.Redis, server_url: str) -> None:
    with Wrapped.from_url(server_url) as client, LeasedQueue(client, "q", QUIET) as queue:
        lease = held(queue, random_payloads(random.Random(7), MANY))
        assert_read_as_by_the_script(queue, lease, redis_client, scripts=1)


def test_the_script_reads_all_where_memory_usage_is_denied(redis_client: redis.Redis, server_url: str) -> None:
    grant(redis_client, "leased", "q")
    url = server_url.replace("redis://", f"redis://{USER}:{PASSWORD}@")
    try:
        with LeasedQueue(url, "q", QUIET) as queue:
            lease = held(queue, ["x"] * MANY)
            assert scripts_during(redis_client, lambda: queue.read(lease)) == 1
            assert denied(redis_client) == []
            redis_client.execute_command("ACL", "SETUSER", USER, "-memory")  # type: ignore[no-untyped-call]
            lease.state.sizes = None
            assert scripts_during(redis_client, lambda: queue.read(lease)) == 2
            assert scripts_during(redis_client, lambda: list(queue.messages(lease))) == 3
            assert len(queue.read(lease)) == MANY
            assert denied(redis_client) == ["memory|usage"] or denied(redis_client) == ["memory"]
    finally:
        redis_client.acl_deluser(USER)


@pytest.mark.parametrize("flavour", ["sync", "async"])
def test_a_queue_on_a_cluster_reads_the_same(flavour: str) -> None:
    with closing(Cluster("7.0")) as cluster, cluster.client() as client:
        loop = Loop()
        queue: Any = LeasedQueue(cluster.url, "q", QUIET)
        if flavour == "async":
            queue = loop.call(rmq_core.asyncio.LeasedQueue, cluster.url, "q", QUIET)
        lease = held(queue, random_payloads(random.Random(8), MANY))
        node = client.get_redis_connection(client.get_node_from_key(key("ready")))
        assert_read_as_by_the_script(queue, lease, node, scripts=1)
        queue.close()
        loop.close()


def wants(exchange: Exchange[Any], client: redis.Redis, act: Callable[[], object] | None = None, at: int = 0) -> Any:
    """Run an exchange by hand, command by command, and yield each; `act` happens after the command of number `at`.

    What follows in the same write is then sent again from its first command, if `at` is negative, as after a lost
    reply. The generator returns what the exchange does.
    """
    number, reply, slots = 0, None, Slots(b"rmq:{q}:", 1)
    while True:
        try:
            want = exchange.send(reply)
        except StopIteration as stop:
            return stop.value
        commands = want.calls if isinstance(want, Pipeline) else (want,)
        replies: list[Any] = []
        while len(replies) < len(commands):
            replies.append(sent(commands[len(replies)], client, slots))
            number += 1
            yield number
            if number == abs(at) and act is not None:
                act()
                if at < 0:
                    replies.clear()
        reply = replies if isinstance(want, Pipeline) else replies[0]


def sent(command: Any, client: redis.Redis, slots: Slots) -> Any:
    args = command.args
    if isinstance(command, Call):
        args = ("EVAL", command.script.source, *frame(command, slots).args[2:])
    return client.execute_command(*args)  # type: ignore[no-untyped-call]


def finished(running: Any) -> tuple[Any, int]:
    """Run an exchange to its end; return its result, and how many commands it sent."""
    number = 0
    while True:
        try:
            number = next(running)
        except StopIteration as stop:
            return stop.value, number


class Scene:
    """A lease of which every third message is settled, its holder, and another client."""

    def __init__(self, client: redis.Redis) -> None:
        client.flushdb()
        self.client, self.holder, self.other = client, LeasedQueue(client, "q"), LeasedQueue(client, "q")
        self.lease = held(self.holder, [str(number) for number in range(1_200)])
        self.before = [message for message in self.lease_messages() if message.index % 3]
        self.holder.ack(self.lease, [message for message in self.lease_messages() if message.index % 3 == 0])
        self.lease.state.sizes = None

    def lease_messages(self) -> list[Any]:
        return self.other.admin.browse_lease("job", 0, 1_200)

    def reading(self, act: Callable[[Scene], object] | None = None, at: int = 0) -> Any:
        exchange = read(engine_of(self.holder), self.lease)
        return wants(exchange, self.client, (lambda: act(self)) if act else None, at)

    def expires(self) -> None:
        self.client.zadd(key("leases"), {"job": 1}, xx=True)
        self.other.backlog()

    def expires_and_is_claimed_again(self) -> None:
        self.expires()
        assert self.other.claim(lease_id="job", max_messages=1_200)


LOSING: dict[str, Callable[[Scene], object]] = {
    "takeover": lambda s: s.other.claim(lease_id="job"),
    "takeover and ack of some": lambda s: s.other.ack(s.other.adopt("job"), s.before[300:500]),
    "takeover and ack": lambda s: s.other.ack(s.other.adopt("job")),
    "expiry": Scene.expires,
    "expiry and a new claim": Scene.expires_and_is_claimed_again,
    "killed with its data": lambda s: s.client.flushdb(),
}


@pytest.mark.parametrize("act", LOSING)
@pytest.mark.parametrize("resent", [False, True])
def test_a_lease_that_is_lost_between_any_two_commands_is_read_completely_or_not_at_all(
    redis_client: redis.Redis, act: str, *, resent: bool
) -> None:
    commands = finished(Scene(redis_client).reading())[1]
    assert commands > 4
    outcomes = set()
    for at in range(1, commands + 1):
        scene = Scene(redis_client)
        try:
            found, _ = finished(scene.reading(LOSING[act], -at if resent else at))
        except LeaseLost:
            outcomes.add("lost")
        else:
            outcomes.add("read")
            assert found == scene.before
    assert outcomes == ({"lost"} if resent else {"lost", "read"})


def nack_first_chunk(scene: Scene) -> None:
    """Nack as the holder does, whose process ends after the first chunk of 1,000."""
    next(wants(nack(engine_of(scene.holder), scene.lease), scene.client))


SETTLING: dict[str, Callable[[Scene], object]] = {
    "ack of some": lambda s: s.holder.ack(s.lease, s.before[300:500]),
    "nack of some": lambda s: s.holder.nack(s.lease, s.before[300:500], reason="no"),
    "first chunk of a nack": nack_first_chunk,
    "ack of all": lambda s: s.holder.ack(s.lease),
}


@pytest.mark.parametrize("act", SETTLING)
def test_what_the_holder_settles_while_it_reads_is_read_as_before_or_as_after(
    redis_client: redis.Redis, act: str
) -> None:
    commands = finished(Scene(redis_client).reading())[1]
    for at in range(1, commands + 1):
        scene = Scene(redis_client)
        try:
            found, _ = finished(scene.reading(SETTLING[act], at))
        except LeaseLost:
            assert act == "ack of all"
            continue
        left = scene.lease_messages()
        assert set(map(index, left)) <= set(map(index, found)) <= set(map(index, scene.before))


def index(message: Any) -> int:
    return int(message.index)
