"""Publications: when all messages that were published under one name are done, whatever happens to them on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from rmq_core import LeasedConfig, LeasedQueue, NewMessage
from rmq_core.errors import ConfigurationError, PayloadError, QueueFull
from rmq_core.leased import grouping
from rmq_core.policy import Overflow
from rmq_core.transfer.exporting import Export, ExportFile
from rmq_core.transfer.importing import Import, ImportOptions
from tests.core.leases import SOON_S, blocked, drain, eventually, expire, fall_due, key, woken_soon
from tests.core.worlds import World

NAME = "report 2026-11"


def counting(world: World, name: str = "q", policy: str = "fair", **config: Any) -> Any:
    queue = world.queue(name, config=LeasedConfig(**config))
    queue.admin.configure(groups=policy)
    return queue


def counts(queue: Any) -> tuple[int, ...]:
    """Return how many messages of the publication wait, are leased, acked, dead and removed."""
    return tuple(queue.publication(NAME)[2:7])


def done(queue: Any) -> bool:
    return bool(queue.publication(NAME).done)


@pytest.mark.parametrize("publish", ["many", "staged"])
def test_it_does_not_end_while_messages_are_being_published(world: World, publish: str) -> None:
    queue = counting(world)
    consumer = LeasedQueue(world.url, "q")  # it blocks in every world: the payloads are made on the publisher's thread

    def slowly() -> Iterator[str]:
        for number in range(3000):
            if number % 1000 == 0 and number:  # the chunk before may have been consumed
                drain(consumer)
            yield str(number)

    if publish == "many":
        endings = []
        report = queue.publish_many((endings.append(done(consumer)) or text for text in slowly()), publication=NAME)
        assert (report.accepted, any(endings)) == (3000, False)
    else:
        queue.open_publication(NAME)
        for _ in range(2):
            queue.publish_staged([queue.stage(slowly(), publication=NAME)])
            drain(consumer)
            assert not done(consumer)
        queue.close_publication(NAME)
    assert not done(queue) or not queue.stats().ready
    drain(consumer)
    assert done(queue)
    consumer.close()
    count = 3000 if publish == "many" else 6000
    assert queue.publication(NAME)[1:7] == (count, 0, 0, count, 0, 0)


def test_a_waiting_caller_is_woken_by_the_end(world: World) -> None:
    queue, consumer = counting(world), world.queue()

    def attempt() -> float:
        queue.publish_many(["a", "b"], publication=NAME)
        lease = consumer.claim(max_messages=2)
        waits = [world.in_background(queue.publication, NAME, wait=60) for _ in range(2)]
        eventually(lambda: world.client.zcard(key("watchers")) == 2)
        blocked(world, 2)
        began = time.monotonic()
        consumer.ack(lease)
        assert all(each.result().done for each in waits)
        return time.monotonic() - began

    assert woken_soon(attempt)
    assert SOON_S < 5, "a caller asks again every five seconds"


def test_waiting_ends_with_its_time(world: World) -> None:
    queue = counting(world)
    queue.publish("a", publication=NAME)
    assert not queue.publication(NAME, wait=0.05).done
    assert queue.publication("unknown", wait=0.05) == ("unknown", 0, 0, 0, 0, 0, 0, 0, None)


def test_an_empty_publication_has_ended(world: World) -> None:
    queue = counting(world)
    queue.publish_many([], publication=NAME)
    assert done(queue)


def test_work_that_leads_to_more_work_is_part_of_it(world: World) -> None:
    """A handler publishes into the publication before its own message is acked."""
    queue = counting(world, policy="exclusive")
    queue.publish("3", publication=NAME, group="a")
    handled = 0
    while lease := queue.claim():
        assert not done(queue)
        if depth := int(lease.message.payload):
            queue.publish_many([str(depth - 1)] * 2, publication=lease.message.publication, group="a")
        queue.ack(lease)
        handled += 1
    assert (handled, counts(queue)) == (15, (0, 0, 15, 0, 0))
    assert done(queue)


def test_publishers_that_died_end_it_ten_minutes_later(world: World) -> None:
    queue = counting(world)
    queue.open_publication(NAME)  # and its program is killed
    queue.publish("a", publication=NAME)
    drain(queue)
    assert queue.publication(NAME).publishers == 1
    assert not done(queue)
    record = world.client.hget(key("publications"), NAME).split()
    assert 500_000 < int(record[6]) - int(time.time() * 1000) <= 601_000
    record[6] = b"1"
    world.client.hset(key("publications"), NAME, b" ".join(record))
    assert done(queue)
    queue.publish("b", publication=NAME)  # it was only slow
    drain(queue)
    assert not done(queue)
    world.client.hset(key("publications"), NAME, b" ".join(record))
    two_scripts = [NewMessage("c"), NewMessage("d", dedup_key="d")]
    queue.publish_many(two_scripts, publication=NAME)  # by a retry, which counts as the only publisher
    assert not done(queue)
    drain(queue)
    assert done(queue)


def test_one_of_which_all_messages_are_duplicates_has_ended(world: World) -> None:
    queue = counting(world)
    queue.publish("a", dedup_key="a")
    queue.publish_many(["a"], dedup_key=str, publication=NAME)
    assert (done(queue), counts(queue)) == (True, (0, 0, 0, 0, 0))


def test_a_publisher_whose_call_fails_does_not_hold_it_open(world: World) -> None:
    queue = counting(world, max_ready=2)
    with pytest.raises(QueueFull):
        queue.publish_many(["a", "b", "c"], publication=NAME)
    drain(queue)
    assert (queue.publication(NAME).publishers, done(queue)) == (0, True)


def test_dead_letters_are_done_and_redriven_ones_are_not(world: World) -> None:
    queue = counting(world, max_deliveries=1)
    queue.publish_many(["a", "b", "c", "d"], publication=NAME)
    lease = queue.claim(max_messages=3)
    queue.nack(lease, messages=lease.messages[:1])
    assert counts(queue) == (1, 2, 0, 1, 0)
    queue.ack(lease, messages=lease.messages[1:2])
    expire(world, lease.id)
    assert counts(queue) == (1, 0, 1, 2, 0), "its holder has died, and nobody else looks"
    queue.nack(queue.claim())
    assert counts(queue) == (0, 0, 1, 3, 0)
    assert done(queue)
    assert queue.admin.redrive(1) == 1
    assert counts(queue) == (1, 0, 1, 2, 0)
    letters = queue.admin.dead_letters()
    assert queue.admin.redrive_some([letters[0].id]) == 1
    assert queue.admin.edit(letters[1].id, headers={})  # it is no part of the publication any more
    assert counts(queue) == (2, 0, 1, 0, 1)
    assert not done(queue)
    assert len(drain(queue)) == 3
    assert counts(queue) == (0, 0, 3, 0, 1)
    assert done(queue)


def test_deleted_messages_are_done(world: World) -> None:
    queue = counting(world)
    ids = [queue.publish(text, publication=NAME).id for text in "abc"]
    late = queue.publish("d", publication=NAME, delay=60).id
    queue.publish_many(["e", "f"], publication=NAME, delay=60)
    assert queue.admin.cancel(ids[0])
    assert queue.admin.cancel(late)
    assert counts(queue) == (4, 0, 0, 0, 2)
    assert queue.admin.purge("ready") == 2
    assert counts(queue) == (2, 0, 0, 0, 4)
    assert queue.admin.purge("delayed") == 2
    assert (counts(queue), done(queue)) == ((0, 0, 0, 0, 6), True)


def test_isolated_messages_that_were_made_due_and_then_purged_are_done(world: World) -> None:
    queue = counting(world)
    queue.publish_many(["a", "b"], publication=NAME)
    for delay in (None, 3600):
        queue.nack(queue.claim(max_messages=2), delay=delay)
    for message in queue.admin.browse("delayed", 0, 9).messages:
        assert queue.admin.run_now(message.id)
    assert queue.admin.purge("ready") == 2
    assert (counts(queue), done(queue)) == ((0, 0, 0, 0, 2), True)


def test_duplicates_are_no_part_of_it(world: World) -> None:
    queue = counting(world)
    queue.publish("a", dedup_key="1")
    report = queue.publish_many([NewMessage("b", dedup_key=str(number)) for number in range(3)], publication=NAME)
    assert (report.accepted, queue.publication(NAME).messages) == (2, 2)
    stage = queue.stage([NewMessage("c", dedup_key=str(number), delay=9) for number in range(5)], publication=NAME)
    assert queue.publication(NAME).messages == 2, "staged messages are invisible"
    queue.publish_staged([stage])
    fall_due(world)
    assert len(drain(queue)) == 5
    assert counts(queue) == (0, 0, 4, 0, 0)


SETTLED: dict[str, Callable[[Any, Any], Any]] = {
    "ack": lambda queue, lease: queue.ack(lease),
    "in parts": lambda queue, lease: [queue.ack(lease, messages=[each]) for each in [*queue.messages(lease)][::-1]],
    "claim_next": lambda queue, lease: queue.claim_next(ack=lease),
    "after a takeover": lambda queue, lease: queue.ack(queue.adopt(lease.id)),
    "as another's": lambda queue, lease: queue.ack(queue.claim(lease_id="x", max_messages=5000)),
}


@pytest.mark.parametrize("policy", ["fair", "exclusive"])
@pytest.mark.parametrize("how", SETTLED)
def test_it_ends_however_a_lease_is_settled(world: World, policy: str, how: str) -> None:
    # A claim moves the messages of a group that only one lease may hold in one step, others chunk by chunk.
    count = 200 if how == "in parts" else 3900 if policy == "exclusive" else 4500
    queue = counting(world, policy=policy)
    queue.publish_many(map(str, range(count)), publication=NAME, group="a")
    queue.publish_many(map(str, range(9)), publication="other", group="a")
    lease = queue.claim(lease_id="x", max_messages=count)
    assert counts(queue) == (0, count, 0, 0, 0)
    SETTLED[how](queue, lease)
    assert (counts(queue), done(queue)) == ((0, 0, count, 0, 0), True)
    assert queue.publication("other").acked == 0


def test_an_import_counts_what_it_adds(world: World) -> None:
    source, target = counting(world, "source"), counting(world)
    source.publish_many(["a", "b"], publication=NAME)
    source.publish("c", publication=NAME, delay=60)
    source.admin.pause()
    lines = ExportFile(Export(source, "0").lines())
    assert Import(target, "a", ImportOptions()).run(lines).imported == 3
    assert counts(target) == (3, 0, 0, 0, 0)


def test_groups_stay_while_a_publication_has_not_ended(world: World) -> None:
    queue = counting(world)
    queue.publish("a", publication=NAME, group="a")
    for change in ({"reset": "groups"}, {"groups": "exclusive"}):
        with pytest.raises(ConfigurationError, match="publication 'report 2026-11' has not ended"):
            queue.admin.configure(**change)
    queue.admin.configure(groups='fair {"a": 2}')
    drain(queue)
    queue.admin.configure(reset="groups")
    with pytest.raises(ConfigurationError, match="has no groups"):
        queue.publication(NAME)


@pytest.mark.parametrize("policy", ["fair", "exclusive"])
def test_a_publication_that_begins_while_groups_are_removed_keeps_them_and_their_limit(
    world: World, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, store = counting(world, policy=policy), grouping._store
    queue.publish_many(map(str, range(1500)), group="a")

    def late(engine: Any, text: Any) -> Any:
        with LeasedQueue(world.url, "q") as other:
            if not other.publication(NAME).messages:
                other.publish_many(["x", "y"], publication=NAME)
        return store(engine, text)

    monkeypatch.setattr(grouping, "_store", late)
    with pytest.raises(ConfigurationError, match="has not ended"):
        queue.admin.configure(reset="groups")
    assert counts(queue) == (2, 0, 0, 0, 0)
    leases = [lease for _ in range(2) if (lease := queue.claim(groups=["a"]))]
    assert len(leases) == (1 if policy == "exclusive" else 2)
    for lease in leases:
        queue.release(lease)
    assert len(drain(queue)) == 1502
    assert (counts(queue), done(queue)) == ((0, 0, 2, 0, 0), True)


def test_messages_that_come_to_groups_later_are_no_part_of_a_publication(world: World) -> None:
    source, plain = counting(world, "source"), world.queue()
    source.publish_many(["a", "b"], publication=NAME)
    source.admin.pause()
    Import(plain, "a", ImportOptions()).run(ExportFile(Export(source, "0").lines()))
    plain.admin.configure(groups="fair")
    assert plain.publication(NAME).messages == 0
    plain.publish("c", publication=NAME)
    assert len(drain(plain)) == 3
    assert done(plain)


def test_a_queue_without_groups_refuses_publications(world: World) -> None:
    queue, operator = world.queue(), world.queue()
    for call in (
        lambda: queue.publish("a", publication=NAME),
        lambda: queue.publish_many(["a"], publication=NAME),
        lambda: queue.publish_many([NewMessage("a", publication=NAME)]),
        lambda: queue.publish("a", headers={"rmq-publication": NAME}),
        lambda: queue.stage(["a"], publication=NAME),
        lambda: queue.publication(NAME),
        lambda: queue.open_publication(NAME),
    ):
        with pytest.raises(ConfigurationError, match=r"configure\(groups='fair'\)"):
            call()
    assert queue.stats().ready == 0
    operator.admin.configure(groups="fair")
    queue.publish("a", publication=NAME)  # at once, although this client has read other settings just now
    for wrong in ("", "a" * 201, 'a"b', "a\\b", "a\nb"):
        with pytest.raises(PayloadError, match="publication"):
            queue.publish("a", publication=wrong)


def test_publications_are_forgotten_a_week_after_their_end(world: World) -> None:
    queue = counting(world)
    queue.publish_many([], publication="old")
    queue.publish("a", publication="in work")
    long_ago = str(int(time.time() * 1000) - 8 * 86_400_000)
    client: Any = world.client
    client.hset(key("publications"), "old", f"0 0 0 0 0 0 1 {long_ago}")
    for number in range(100):
        queue.publish_many([], publication=str(number % 3))
        if not client.hexists(key("publications"), "old"):
            break
    assert client.hkeys(key("publications")).count(b"old") == 0
    assert client.hexists(key("publications"), "in work")


def test_bounded_queues_count_what_they_accept(world: World) -> None:
    queue = counting(world, max_ready=5, overflow=Overflow.BLOCK(0.01))
    with suppress(QueueFull):
        queue.publish_many([NewMessage(str(number), delay=number % 2 and 60) for number in range(9)], publication=NAME)
    stats = queue.stats()
    assert queue.publication(NAME).waiting == stats.ready + stats.delayed <= 5


def test_publications_are_listed_those_in_work_first(world: World) -> None:
    assert world.queue("plain").admin.publications() == []
    queue, consumer = counting(world), world.queue()
    long_ago = int(time.time() * 1000) - 86_400_000
    for number in range(5):
        queue.publish_many(["x"], publication=f"ended {number}")
        drain(consumer)
        record = world.client.hget(key("publications"), f"ended {number}").rpartition(b" ")[0]
        world.client.hset(key("publications"), f"ended {number}", record + b" %d" % (long_ago + number))
    queue.open_publication("open")
    queue.publish_many(["x"] * 2, publication="small")
    queue.publish_many(["x"] * 3, publication="large")
    held = queue.claim(max_messages=4)
    found = queue.admin.publications()
    assert [each.name for each in found] == ["large", "small", "open", *(f"ended {n}" for n in (4, 3, 2, 1, 0))]
    assert found == [queue.publication(each.name) for each in found]
    assert queue.admin.publications(4) == found[:4]
    queue.ack(held)
    drain(queue)
    assert queue.admin.publications(1)[0].name == "open"
    record = world.client.hget(key("publications"), "open").split()
    world.client.hset(key("publications"), "open", b" ".join([*record[:6], b"%d" % (long_ago - 1), record[7]]))
    names = [each.name for each in queue.admin.publications()]
    assert names[-1] == "open", "its publisher was gone by then"


def test_the_time_at_which_it_ended_does_not_change_later(world: World) -> None:
    """Whoever starts work once for each end compares the times."""
    queue = counting(world)

    def gone(until_ms: int) -> None:
        record = world.client.hget(key("publications"), NAME).split()
        world.client.hset(key("publications"), NAME, b" ".join([*record[:6], b"%d" % until_ms, record[7]]))

    now_ms = int(queue.admin.server_time().timestamp() * 1000)
    queue.open_publication(NAME)  # and its program is killed
    queue.publish("a", publication=NAME)
    drain(queue)
    gone(now_ms - 5000)
    ended = queue.publication(NAME).ended
    assert ended.timestamp() * 1000 == pytest.approx(now_ms - 5000, abs=1)
    queue.admin.purge("ready")  # counts all publications
    queue.close_publication(NAME)  # it was only slow
    assert queue.publication(NAME).ended == ended

    queue.open_publication(NAME)
    queue.publish("b", publication=NAME)
    gone(now_ms - 1000)
    drain(queue)  # after its publishers were gone
    ended = queue.publication(NAME).ended
    assert ended.timestamp() * 1000 >= now_ms
    queue.close_publication(NAME)
    assert queue.publication(NAME).ended == ended
