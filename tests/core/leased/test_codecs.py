"""Queues whose payloads have one type, and queues that compress."""

from __future__ import annotations

import json
import pickle
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pydantic
import pytest
from typing_extensions import TypedDict

from rmq_core import ConfigurationError, LeasedConfig, Match, NewMessage, PayloadError, Typed
from rmq_core.envelope import codec
from rmq_core.envelope.payloads import compressed, decode_payload, encode_payload
from rmq_core.errors import InvalidPayload, MalformedMessage, UnknownPayloadKind
from rmq_core.kernel.base import tools_of
from rmq_core.messages import Lease
from rmq_core.redis_message_queue import RedisMessageQueue
from rmq_core.reliable import ReliableConfig
from tests.core.leases import handler_of, key
from tests.core.transfer.test_transfers import lines_of, moved
from tests.core.worlds import World
from tests.payload_kinds import KINDS, PUBLISHED, READ, REFUSED


class Order(pydantic.BaseModel):
    id: int
    at: datetime
    prices: list[Decimal] = []


@dataclass
class Parcel:
    id: int
    at: datetime


class Row(TypedDict):
    id: int
    at: datetime


class Event(msgspec.Struct):
    id: int
    at: datetime


NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
TYPES: list[Any] = [Order, Parcel, Row, Event]
ORDERS = LeasedConfig(codec=Typed(Order))
NO_INTEGER = "Input should be a valid integer, unable to parse string as an integer"
BAD = {"id": "seven", "at": "2026-01-02"}


def order(number: int) -> Order:
    return Order(id=number, at=NOW)


@pytest.mark.parametrize("kind", TYPES)
def test_a_value_of_the_type_and_a_dict_of_its_fields_are_stored_alike_and_read_as_the_type(
    world: World, kind: Any
) -> None:
    queue = world.queue(config=LeasedConfig(codec=Typed(kind)))
    queue.publish(kind(id=7, at=NOW))
    queue.publish_many([{"id": 7, "at": NOW}, NewMessage({"id": 7, "at": NOW.isoformat()}, headers={"a": "b"})])
    assert len({message.raw for message in queue.admin.peek(3)}) == 1
    with queue.process(max_messages=3) as batch:
        assert batch.payloads == [kind(id=7, at=NOW)] * 3
        assert [message.payload for message in batch.lease.messages] == [kind(id=7, at=NOW)] * 3
    assert [message.payload["id"] for message in queue.admin.peek(3)] == []


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("payload", [BAD, {"id": 1}, "text", b"bytes", 7, [1], object()])
def test_publish_refuses_what_is_not_of_the_type_and_names_the_codec(world: World, kind: Any, payload: Any) -> None:
    queue = world.queue(config=LeasedConfig(codec=Typed(kind)))
    with pytest.raises(PayloadError, match=rf"^payload.*; the codec is Typed\({kind.__name__}\)$"):
        queue.publish(payload)
    with pytest.raises(PayloadError, match=r"^payloads\[1\]: payload"):
        queue.publish_many([{"id": 1, "at": NOW}, payload])
    with pytest.raises(PayloadError, match=r"^payloads\[0\]: payload"):
        queue.publish_many([payload, payload])  # texts alone, or bytes alone, are encoded together in a plain queue
    assert queue.stats().ready == 0


def test_publish_names_the_part_that_does_not_fit(world: World) -> None:
    queue = world.queue(config=ORDERS)
    with pytest.raises(PayloadError, match=r"^payload\['prices'\]\[1\]: Input should be a valid decimal"):
        queue.publish({"id": 1, "at": NOW, "prices": [1, "dear"]})
    changed = order(1)
    changed.id = "seven"  # type: ignore[assignment]
    with pytest.raises(PayloadError, match=r"^payload\['id'\]: Input should be a valid integer"):
        queue.publish(changed)


def test_a_run_makes_a_payload_that_does_not_fit_a_dead_letter_and_goes_on(world: World) -> None:
    plain, queue = world.queue(), world.queue(config=ORDERS)
    queue.publish(order(1))
    plain.publish_many([BAD, "no JSON", b"\xff"])
    queue.publish(order(2))
    seen: list[Any] = []
    report = queue.run(handler_of(world.flavour, lambda message: seen.append(message.payload)), until_empty=True)
    assert seen == [order(1), order(2)]
    assert report == (2, 3, 3, 0)
    letters = queue.admin.dead_letters(10)
    assert [letter.deliveries for letter in letters] == [1, 1, 1]
    assert sorted(letter.history[-1].reason.removeprefix("InvalidPayload: ") for letter in letters) == [
        "payload has bytes, not JSON; the codec is Typed(Order)",
        "payload: Input should be an object; the codec is Typed(Order)",
        f"payload['id']: {NO_INTEGER}; the codec is Typed(Order)",
    ]


@pytest.mark.parametrize("size", [1, 3, 1500])
@pytest.mark.parametrize("stored", [{}, {"groups": "exclusive"}, {"shards": 2}], ids=str)
def test_a_batch_leaves_out_what_does_not_fit_and_acks_the_others(
    world: World, size: int, stored: dict[str, Any]
) -> None:
    plain, queue = world.queue(), world.queue(config=ORDERS)
    if stored:
        queue.admin.configure(**stored)
    plain.publish_many([BAD if n % 3 == 1 else json.loads(order(n).model_dump_json()) for n in range(size)])
    good, acked, dead = [], 0, 0
    while queue.stats().ready:  # a claim may get the messages of one shard only
        with queue.process(max_messages=size) as batch:
            good += [payload.id for payload in batch.payloads]
            assert all(message.payload.id in good for message in batch)
        acked, dead = acked + batch.acked, dead + batch.dead
    assert sorted(good) == [n for n in range(size) if n % 3 != 1]
    assert (acked, dead) == (len(good), size - len(good))
    assert (queue.stats().dead, queue.stats().leased) == (size - len(good), 0)


def test_a_batch_of_bad_payloads_alone_ends_without_an_ack(world: World) -> None:
    queue = world.queue(config=ORDERS)
    world.queue().publish_many([BAD] * 3)
    with queue.process(max_messages=3) as batch:
        assert batch.payloads == []
    assert (batch.acked, queue.stats().dead, queue.stats().leases) == (0, 3, 0)


def test_who_claims_by_hand_gets_an_error_that_names_the_message_and_loses_nothing(world: World) -> None:
    queue = world.queue(config=ORDERS)
    (message_id,) = world.queue().publish_many([BAD]).ids
    lease = queue.claim()
    for message in (lease.message, next(iter(queue.messages(lease))), next(iter(queue.read(lease)))):
        with pytest.raises(InvalidPayload, match=rf"^message '{message_id}': payload\['id'\]: ") as raised:
            _ = message.payload
        assert (raised.value.message_id, json.loads(message.raw)) == (message_id, BAD)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    queue.nack(lease, reason=str(raised.value))
    assert queue.stats()[:5] == (1, 0, 0, 0, 0)
    assert world.queue().claim().message.payload == BAD


def test_a_taken_over_lease_and_one_of_another_process_are_read_by_the_codec(world: World) -> None:
    queue = world.queue(config=ORDERS)
    queue.publish(order(1))
    queue.claim(lease_id="task")
    again = world.queue(config=ORDERS).claim(lease_id="task")
    assert (again.takeovers, again.message.payload) == (1, order(1))
    adopted = queue.adopt("task")
    assert [message.payload for message in queue.messages(adopted)] == [order(1)]
    described = Lease.from_json(again.to_json())
    assert pickle.loads(pickle.dumps(queue.read(adopted))) == queue.read(adopted)
    assert described.state.codec is None


def test_a_dead_letter_is_edited_only_to_what_fits(world: World) -> None:
    queue = world.queue(config=ORDERS)
    world.queue().publish(BAD)
    queue.run(handler_of(world.flavour, lambda _: None), until_empty=True)
    (letter,) = queue.admin.dead_letters(1)
    with pytest.raises(PayloadError, match=r"payload\['at'\]: Field required"):
        queue.admin.edit(letter.id, {"id": 3})
    assert queue.admin.edit(letter.id, order(3))
    assert queue.claim().message.payload == order(3)


def test_equal_models_are_duplicates_whatever_form_they_are_given_in(world: World) -> None:
    queue = world.queue(config=LeasedConfig(codec=Typed(Order), dedup=True))
    report = queue.publish_many([order(1), {"at": NOW, "id": "1"}, order(2), order(1)])
    assert (report.accepted, report.duplicates) == (2, 2)
    untyped = world.queue("other", LeasedConfig(dedup=True))
    report = untyped.publish_many([Parcel(1, NOW), {"at": NOW, "id": 1}, {"at": NOW.isoformat(), "id": 1}])
    assert (report.accepted, report.duplicates) == (1, 2)
    assert untyped.publish_many([{1, 2, 3}, {3, 2, 1}, [1, 2, 3]]).accepted == 1


def test_a_deduplication_key_is_that_of_the_type_for_publishers_and_for_tools(world: World) -> None:
    config = LeasedConfig(codec=Typed(Order), dedup_key=lambda one: f"order-{one.id}")
    queue = world.queue(config=config)
    queue.publish(order(1))
    assert not queue.publish({"id": "1", "at": NOW}).accepted
    (found,) = queue.admin.search("ready", Match(dedup_key="order-1")).messages
    queue.admin.cancel(found.id)
    assert queue.publish(order(1)).accepted


def test_a_lost_reply_of_a_rejection_counts_once(world: World) -> None:
    queue = world.queue(config=ORDERS)
    world.queue().publish_many([BAD, BAD])
    lease = queue.claim(max_messages=2)
    first = lease.messages[0]
    for _ in range(2):
        tools_of(queue).reject(lease, [first], reason="bad")
    assert queue.stats()[:5] == (0, 0, 1, 1, 1)


def test_a_codec_is_no_setting_of_the_queue(world: World) -> None:
    queue = world.queue(config=ORDERS)
    with pytest.raises(ConfigurationError, match="codec"):
        queue.admin.configure(codec="Order")
    queue.admin.configure(max_deliveries=3, compress_above=10)
    queue.publish(order(1))
    assert queue.config.codec == Typed(Order)
    assert queue.claim().message.payload == order(1)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (Order, r"codec must be Typed\(\.\.\.\)"),
        ("json", "codec must be"),
        (lambda: Typed(object()), "pydantic reads no"),
    ],
)
def test_a_codec_that_is_none_is_refused(given: Any, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        LeasedConfig(codec=given() if callable(given) and given is not Order else given)


def test_every_kind_of_the_table_is_read_as_the_table_says(world: World) -> None:
    queue = world.queue()
    queue.publish_many(PUBLISHED)
    for payload in PUBLISHED:
        queue.publish(payload)
    queue.publish_many([NewMessage({"deep": [payload]}) for payload in PUBLISHED if not isinstance(payload, bytearray)])
    lease = queue.claim(max_messages=1000)
    read = [message.payload for message in lease.messages]
    assert read[: len(READ)] == READ
    assert read[len(READ) : 2 * len(READ)] == READ
    assert read[2 * len(READ) :] == [{"deep": [value]} for value in READ if not isinstance(value, bytes)]
    assert len(KINDS) >= 20
    for kind, message in zip(KINDS, lease.messages, strict=False):
        word = {"s": "text", "b": "bytes", "j": "JSON"}[message.kind]
        assert kind.stored.startswith((word, "its ")), kind.name
        assert type(message.payload) is type(kind.read), kind.name


@pytest.mark.parametrize("discipline", ["jobs", "reliable"])
def test_every_kind_is_read_alike_in_other_disciplines(world: World, discipline: str) -> None:
    queue = world.open(discipline, config=ReliableConfig(worker="w") if discipline == "reliable" else None)
    queue.publish_many(PUBLISHED)
    assert [queue.claim().message.payload for _ in PUBLISHED] == READ


def test_a_job_and_a_stream_take_models_too(world: World) -> None:
    jobs, stream = world.open("jobs"), world.open("streams", "s")
    for payload in [*PUBLISHED, None]:
        jobs.add("count", payload)
    assert [message.payload for message in jobs.admin.peek(100)] == [*READ, None]
    objects = [(one.published, one.read) for one in KINDS if isinstance(one.read, dict)]
    stream.publish_many([published for published, _ in objects])
    assert [stream.claim().message.payload for _ in objects] == [read for _, read in objects]
    with pytest.raises(PayloadError, match="payload must be a dict, not set: a stream holds JSON objects"):
        stream.publish({1})


@pytest.mark.parametrize("payload", REFUSED, ids=repr)
def test_what_the_page_says_is_refused_is_refused(world: World, payload: Any) -> None:
    queue = world.queue()
    with pytest.raises(PayloadError, match=r"^payload"):
        queue.publish(payload)
    with pytest.raises(PayloadError, match=r"^payloads\[1\]: payload"):
        queue.publish_many(["good", payload])
    assert queue.stats().ready == 0


def test_columns_have_the_bytes_of_every_kind(world: World) -> None:
    queue = world.queue(config=LeasedConfig(compress_above=1))
    queue.publish_many(PUBLISHED)
    queue.publish_many([TEXT, {"text": TEXT}])
    found = queue.read_arrow(queue.claim(max_messages=100))["payload"].to_pylist()
    assert found == [encode_payload(payload)[1] for payload in [*READ, TEXT, {"text": TEXT}]]


TEXT = "all work and no play " * 500
PAYLOADS: list[Any] = [TEXT, TEXT.encode(), {"text": TEXT}, [TEXT], "short", b"", {"a": 1}]


def kinds(world: World, name: str = "q") -> list[str]:
    return [codec.split(each).kind for each in world.client.lrange(key("ready", name), 0, -1)]


def test_compressed_payloads_are_read_as_they_were_published(world: World) -> None:
    queue = world.queue(config=LeasedConfig(compress_above=1000))
    queue.publish_many(PAYLOADS)
    for payload in PAYLOADS:
        queue.publish(payload)
    assert kinds(world) == [*"SBJJsbj"] * 2
    assert world.client.memory_usage(key("ready")) < 8 * len(TEXT)
    plain = world.queue()
    lease = plain.claim(max_messages=14)
    assert [message.payload for message in lease.messages] == PAYLOADS * 2
    assert lease.messages[0].kind == "s"
    assert lease.messages[0].raw == TEXT.encode()
    assert plain.read_arrow(lease)["payload"].to_pylist()[:2] == [TEXT.encode()] * 2
    assert [message.payload for message in plain.admin.browse_lease(lease.id)] == PAYLOADS * 2


@pytest.mark.parametrize("count", [3, 600])
def test_texts_that_are_published_together_are_compressed_too(world: World, count: int) -> None:
    queue = world.queue(config=LeasedConfig(compress_above=1000))
    queue.publish_many([TEXT] * count)
    assert set(kinds(world)) == {"S"}
    assert queue.claim(max_messages=count).messages[-1].payload == TEXT


def test_what_compression_does_not_shorten_is_stored_as_it_is(world: World) -> None:
    queue = world.queue(config=LeasedConfig(compress_above=1))
    noise = bytes(range(256))
    queue.publish_many([noise, "ab"])
    assert kinds(world) == ["b", "s"]


def test_a_producer_follows_a_change_of_the_setting(world: World) -> None:
    queue = world.queue()
    queue.publish(TEXT)
    world.queue().admin.configure(compress_above="1KiB")
    fresh = world.queue()
    fresh.publish(TEXT)
    assert fresh.config.compress_above == 1024
    fresh.admin.configure(compress_above=None)
    fresh.publish(TEXT)
    assert kinds(world) == ["s", "S", "s"]


def test_duplicates_are_found_whether_compressed_or_not(world: World) -> None:
    plain, queue = (
        world.queue(config=LeasedConfig(dedup=True)),
        world.queue(config=LeasedConfig(dedup=True, compress_above=100)),
    )
    assert plain.publish(TEXT).accepted
    assert not queue.publish(TEXT).accepted
    assert queue.publish({"text": TEXT}).accepted
    found = queue.admin.peek(2)[1]
    queue.admin.cancel(found.id)
    assert plain.publish({"text": TEXT}).accepted


def test_a_search_finds_the_text_of_a_compressed_payload(world: World) -> None:
    queue = world.queue(config=LeasedConfig(compress_above=100))
    queue.publish_many([TEXT, TEXT + "the needle", {"a": TEXT}])
    assert [message.raw[-6:] for message in queue.admin.search("ready", Match(text="needle")).messages] == [b"needle"]
    assert queue.admin.purge("ready", where=Match(text="needle")) == 1


def test_compressed_payloads_are_exported_and_imported_as_they_are(world: World) -> None:
    queue = world.queue(config=LeasedConfig(compress_above=100))
    queue.publish_many(PAYLOADS)
    lines = lines_of(queue, live=True)
    plain = world.queue("plain")
    moved(plain, lines)
    assert kinds(world, "plain") == [*"SBJJsbj"]
    assert [message.payload for message in plain.admin.peek(10)] == PAYLOADS
    moved(world.queue("again", LeasedConfig(compress_above=100)), lines_of(plain, live=True))
    assert lines_of(world.queue("again"), live=True)[1:-1] == lines[1:-1]


def test_a_redis_message_queue_reads_compressed_payloads(world: World) -> None:
    world.queue(config=LeasedConfig(compress_above=100)).publish_many([TEXT, TEXT.encode()])
    queue = RedisMessageQueue("q", client=world.client, visibility_timeout_seconds=60)
    for _ in range(2):
        with queue.process_message() as message:
            assert message == TEXT.encode()


def test_an_edited_dead_letter_of_a_compressing_queue_is_read(world: World) -> None:
    queue = world.queue(config=LeasedConfig(compress_above=100, max_deliveries=1))
    queue.publish(TEXT)
    queue.nack(queue.claim())
    (letter,) = queue.admin.dead_letters(1)
    assert letter.payload == TEXT
    queue.admin.edit(letter.id, headers={"a": "b"})
    assert queue.claim().message.payload == TEXT


@pytest.mark.parametrize(
    ("kind", "data", "error"),
    [
        ("J", b"no zlib", "is damaged"),
        ("S", zlib.compress(TEXT.encode())[:-8], "is cut off"),
        ("B", zlib.compress(bytes((64 << 20) + 1)), "more than 67108864 bytes"),
    ],
    ids=["no zlib", "cut off", "bomb"],
)
def test_a_damaged_payload_and_a_bomb_are_malformed_and_hide_no_other(
    world: World, kind: str, data: bytes, error: str
) -> None:
    queue = world.queue()
    world.client.rpush(key("ready"), b"0 1 0 " + codec.body("bad", kind, data))
    queue.publish("good")
    bad, good = queue.admin.peek(2)
    assert (bad.id, bad.raw, good.payload) == ("bad", data, "good")
    with pytest.raises(MalformedMessage, match=error) as raised:
        _ = bad.payload
    assert not isinstance(raised.value, UnknownPayloadKind)
    lease = queue.claim(max_messages=2)
    with pytest.raises(MalformedMessage, match=error):
        queue.read_arrow(lease)


def test_a_payload_that_no_reader_would_inflate_is_not_compressed() -> None:
    longest = bytes(64 << 20)
    kind, data = compressed("b", longest)
    assert (kind, decode_payload(kind, data) == longest) == ("B", True)
    assert compressed("b", longest + b"\0")[0] == "b"
