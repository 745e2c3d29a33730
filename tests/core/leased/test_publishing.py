from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
import redis

from rmq_core import LeasedConfig, LeasedQueue, NewMessage, PayloadError, Stage
from rmq_core.envelope.codec import split
from rmq_core.errors import PayloadTooDeep, PayloadTooLarge, QueueFull
from rmq_core.leased.publishing import publish_many, stage
from rmq_core.protocol import DISCIPLINES, open_queue
from tests.core.leases import drain, engine_of, fall_due, key, payloads, run, slowly, snapshot
from tests.core.tenants import PASSWORD, USER, grant
from tests.core.worlds import World

PAYLOADS: list[Any] = [
    "", "text", "two lines\nand a \x00", "żółć\u2028🦄", "0 1 2 b0 looks like an envelope", b"", b"\x00\xff\r\n $5",
    {}, [], {"b": 1, "a": [1.5, None, True, "ż", {"": []}]}, [[], {}, "x"], "x" * 100_000,
]  # fmt: skip


def finished(world: World, queue: Any, operation: Any, reply: Any) -> Any:
    """Run an operation that has begun to its end, with this reply to its first request; return its result."""
    while True:
        try:
            want = operation.send(reply)
        except StopIteration as ended:
            return ended.value
        reply = run(world, queue, want)


def server_now(world: World) -> datetime:
    seconds, micros = world.client.time()
    return datetime.fromtimestamp(seconds + micros // 1000 / 1000, UTC)


def test_payloads_of_every_kind_are_returned_unchanged(world: World) -> None:
    queue = world.queue()
    assert queue.publish_many(PAYLOADS).accepted == len(PAYLOADS)
    found = payloads(queue.claim(max_messages=100).messages)
    assert found == PAYLOADS
    assert [type(payload) for payload in found] == [type(payload) for payload in PAYLOADS]


def test_the_stored_bytes_of_a_payload_are_available(world: World) -> None:
    queue = world.queue()
    queue.publish_many(["ż", b"\xff", {"b": [1, "ż"], "a": None}])
    messages = queue.claim(max_messages=3).messages
    assert [message.raw for message in messages] == ["ż".encode(), b"\xff", '{"a":null,"b":[1,"ż"]}'.encode()]


@pytest.mark.parametrize("config", [LeasedConfig(), LeasedConfig(dedup=True)])
def test_messages_of_a_slow_publisher_have_their_true_age(world: World, config: LeasedConfig) -> None:
    queue = world.queue(config=config)
    queue.publish_many(slowly("x"))
    messages = list(queue.messages(queue.claim(max_messages=9_000)))
    times = [message.enqueued_ms for message in messages]
    assert [message.payload for message in messages] == list(slowly("x", 0))
    assert times == sorted(times)
    assert times[-1] - times[0] >= 600
    assert times[-1] - times[7_999] >= 600


def test_the_server_corrects_the_time_of_a_publisher_with_a_wrong_clock(world: World) -> None:
    queue, hour_ms = world.queue(), 3_600_000
    engine_of(queue).registered = True
    texts = list(map(str, range(4_001)))
    given = [texts, pa.array(texts)]
    for wrong_ms, data in itertools.product((hour_ms, -hour_ms), given):
        for operation in (publish_many(engine_of(queue), data), stage(engine_of(queue), data)):
            now_ms = int(run(world, queue, next(operation)).rpartition(b"@")[2])
            result = finished(world, queue, operation, b"now @%d" % (now_ms + wrong_ms))
            if isinstance(result, Stage):
                queue.publish_staged([result])
            messages = list(queue.messages(queue.claim(max_messages=9_000)))
            assert [message.payload for message in messages] == texts
            assert max(abs(message.enqueued_ms - now_ms) for message in messages) < hour_ms / 2


class Exported:
    """A table of another library, of which RMQ knows only the Arrow data."""

    def __init__(self, table: pa.Table) -> None:
        self.__arrow_c_stream__ = table.__arrow_c_stream__


TEXTS = [f"{number} żółć \x00\r\n$5" if number % 3 else "" for number in range(9_001)]
BYTES = [text.encode() + b"\xff" for text in TEXTS]
COLUMNS: dict[str, tuple[Any, list[Any]]] = {
    "array": (pa.array(TEXTS), TEXTS),
    "part of an array": (pa.array(TEXTS)[5:7_000], TEXTS[5:7_000]),
    "chunks": (pa.chunked_array([TEXTS[:3_000], [], TEXTS[3_000:]], pa.large_string()), TEXTS),
    "bytes": (pa.array(BYTES), BYTES),
    "views": (pa.array(BYTES, pa.binary_view()), BYTES),
    "table": (pa.table({"payload": TEXTS}), TEXTS),
    "record batch": (pa.record_batch({"payload": BYTES}), BYTES),
    "reader": (pa.table({"payload": TEXTS}), TEXTS),
    "another library": (Exported(pa.table({"payload": TEXTS})), TEXTS),
    "large ones": (pa.array([*TEXTS, "x" * (3 << 20), *TEXTS[:9], *["y" * 3_000] * 3_000]), None),
    "few": (pa.array(TEXTS[:9]), TEXTS[:9]),
    "none": (pa.array([], pa.string()), []),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_published_and_staged_as_its_values_are(world: World, name: str) -> None:
    queue = world.queue(config=LeasedConfig(max_payload_bytes=4 << 20))
    data, expected = COLUMNS[name]
    values = data.to_pylist() if expected is None else expected
    given = data.to_reader() if name == "reader" else data
    report = queue.publish_many(given, headers={"a": "ü"})
    found = list(queue.messages(queue.claim(max_messages=20_000))) if values else []
    assert [message.payload for message in found] == values
    assert {*map(str, (message.headers for message in found))} <= {"{'a': 'ü'}"}
    assert [message.id for message in found] == list(report.ids)
    assert len({*report.ids}) == report.accepted == len(values)
    queue.publish_staged([queue.stage(data.to_reader() if name == "reader" else data)])
    assert drain(queue) == values


@pytest.mark.parametrize("form", [list, pa.array])
def test_a_user_without_transactions_publishes_and_stages_the_same_by_scripts(
    redis_client: redis.Redis, server_url: str, form: Callable[[Any], Any]
) -> None:
    chance, found = random.Random(4), []
    texts = ["ü" * chance.randrange(99) + "\r\n$1" * chance.randrange(2) for _ in range(5_100)]
    grant(redis_client, "leased", "q")
    url = server_url.replace("redis://", f"redis://{USER}:{PASSWORD}@")
    try:
        for transactions in (True, False):
            if not transactions:
                redis_client.execute_command("ACL", "SETUSER", USER, "-multi")  # type: ignore[no-untyped-call]
            redis_client.config_resetstat()
            with LeasedQueue(url, "q") as queue:
                queue.publish_many(form(texts), headers={"a": "ü"})
                queue.publish_staged([queue.stage(form(texts))])
            stored = map(split, redis_client.lrange(key("ready"), 0, -1))
            found.append([each._replace(id="", enqueued_ms=0) for each in stored])
            begun = redis_client.info("commandstats")["cmdstat_multi"]
            assert (begun["calls"] > 0) == transactions
            redis_client.flushdb()
    finally:
        redis_client.acl_deluser(USER)
    assert found[0] == found[1]
    assert len(found[0]) == 2 * len(texts)


@pytest.mark.parametrize("options", [{"dedup_key": lambda text: text[:3]}, {"delay": 60}, {"headers": {"a": "b"}}])
@pytest.mark.parametrize("config", [LeasedConfig(), LeasedConfig(dedup=True), LeasedConfig(max_ready=700)])
def test_the_options_of_publish_many_hold_for_a_column(
    world: World, options: dict[str, Any], config: LeasedConfig
) -> None:
    texts = [f"{number}" for number in range(2_000)]
    found = []
    for data in (texts, pa.array(texts)):
        queue = world.queue(config=config)
        try:
            report = queue.publish_many(data, **options)
        except QueueFull as error:
            report = error.report
        if "delay" in options:
            fall_due(world)
        found.append((report[:3], sorted(drain(queue)), queue.stats()))
        world.client.flushdb()
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (pa.array([1, 2]), "a column of payloads must have texts or bytes, not int64"),
        (pa.array(["a", None]), "payload is None, as a function without a return gives"),
        (pa.array([*["a"] * 600, None]), r"payloads\[600\]: "),
        (pa.array(["a", "ż" * 6]), "payload has 12 bytes"),
        (pa.table({"a": ["x"]}), "must have one column, 'payload'"),
        (pa.table({"payload": ["x"], "a": ["x"]}), r"not \['payload', 'a'\]: select it"),
    ],
)
def test_a_column_or_table_of_anything_else_is_refused(world: World, data: Any, error: str) -> None:
    queue = world.queue(config=LeasedConfig(max_payload_bytes=10))
    with pytest.raises(PayloadError, match=error):
        queue.publish_many(data)
    assert queue.stats().ready == 0


def test_the_limits_of_a_queue_hold_for_publishing_one_and_many(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_payload_bytes=10, max_payload_depth=2))
    queue.publish_many(["x" * 10, b"y" * 10, [[1]]])
    for refused, error in (("ż" * 6, PayloadTooLarge), ([[[]]], PayloadTooDeep)):
        with pytest.raises(error):
            queue.publish(refused)
        with pytest.raises(error):
            queue.publish_many([refused])
    assert queue.stats().ready == 3


def test_a_deduplication_key_is_accepted_once_even_when_its_message_is_done(world: World) -> None:
    queue = world.queue()
    assert queue.publish("a", dedup_key="k").accepted
    assert not queue.publish("b", dedup_key="k").accepted
    assert queue.publish("c", dedup_key="other").accepted
    assert drain(queue) == ["a", "c"]
    assert not queue.publish("d", dedup_key=b"k").accepted
    assert drain(queue) == []


def test_a_deduplication_key_is_remembered_for_its_window_only(world: World) -> None:
    queue = world.queue(config=LeasedConfig(dedup_window=90))
    queue.publish("a", dedup_key="k")
    (marker,) = world.client.scan_iter(key("dedup:*"))
    assert 80_000 < world.client.pttl(marker) <= 90_000
    world.client.delete(marker)
    assert queue.publish("a", dedup_key="k").accepted


def test_payloads_are_deduplicated_by_their_canonical_form_when_configured(world: World) -> None:
    queue = world.queue(config=LeasedConfig(dedup=True))
    assert queue.publish({"a": 1, "b": [2]}).accepted
    assert not queue.publish({"b": [2], "a": 1}).accepted
    assert [queue.publish(payload).accepted for payload in ("1", b"1", [1], "1")] == [True, True, True, False]


def test_the_deduplication_key_of_a_payload_may_be_computed(world: World) -> None:
    queue = world.queue(config=LeasedConfig(dedup_key=lambda payload: payload["id"]))
    assert queue.publish({"id": "a", "n": 1}).accepted
    assert not queue.publish({"id": "a", "n": 2}).accepted
    assert queue.publish({"id": "a", "n": 2}, dedup_key=lambda payload: str(payload["n"])).accepted
    assert not queue.publish({"n": 3}, dedup_key="a").accepted


@pytest.mark.parametrize("empty", ["", b"", lambda _: ""])
def test_an_empty_deduplication_key_is_refused(world: World, empty: Any) -> None:
    queue = world.queue()
    with pytest.raises(PayloadError, match="dedup_key is empty"):
        queue.publish("x", dedup_key=empty)
    assert snapshot(world.client) == {}


def test_a_forgotten_deduplication_key_can_be_published_again(world: World) -> None:
    queue = world.queue()
    queue.publish("a", dedup_key="k")
    assert [queue.admin.forget("k"), queue.admin.forget("k")] == [True, False]
    assert queue.publish("b", dedup_key="k").accepted


def test_a_delayed_message_is_claimed_after_its_delay(world: World) -> None:
    queue = world.queue()
    queue.publish("later", delay=60)
    queue.publish_many(["much later", "too"], delay=3600)
    queue.publish("now")
    assert drain(queue) == ["now"]
    assert queue.stats()[:2] == (0, 3)
    fall_due(world)
    assert sorted(drain(queue)) == ["later", "much later", "too"]


def test_the_delay_is_counted_from_the_servers_clock(world: World) -> None:
    queue = world.queue()
    before = server_now(world).timestamp() * 1000
    queue.publish("x", delay=60)
    after = server_now(world).timestamp() * 1000
    ((_, due),) = world.client.zrange(key("delayed"), 0, -1, withscores=True)
    assert before + 60_000 <= due <= after + 60_000


def test_the_sync_and_the_async_queue_share_one_format(world: World) -> None:
    world.queue().publish({"a": "ż"}, headers={"h": "1"})
    with LeasedQueue(world.url, "q") as other:
        message = other.claim().message  # type: ignore[union-attr]
    assert (message.payload, message.headers) == ({"a": "ż"}, {"h": "1"})


def test_thousands_of_identical_delayed_messages_are_stored_in_few_steps(world: World) -> None:
    queue, count = world.queue(), 4000
    world.client.config_resetstat()
    assert queue.publish_many([NewMessage("p", id="x")] * count, delay=60).accepted == count
    assert queue.stats().delayed == count
    stats = world.client.info("commandstats")
    steps = sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("zadd", "zscore"))
    assert steps < count * 30  # two for each, and one for each doubling and halving; one for each pair is 8,000,000
    fall_due(world)
    assert sum(queue.claim(max_messages=count).count for _ in range(4)) == count  # each makes a thousand ready


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_of_many_payloads_the_one_that_cannot_be_stored_is_named(redis_client: redis.Redis, discipline: str) -> None:
    redis_client.flushdb()
    with closing(open_queue(redis_client, "q", discipline)) as queue:
        good = {"n": 1} if discipline == "streams" else "good"
        with pytest.raises(PayloadError, match=r"^payloads\[1002\]: ") as caught:
            queue.publish_many([good] * 1002 + [object(), good])  # type: ignore[list-item]
        assert caught.value.index == 1002
        assert queue.backlog().ready == caught.value.report.accepted  # type: ignore[attr-defined]
