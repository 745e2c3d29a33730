"""The rotation itself: `id`, `id|stamp`, and the done set; see docs/reference/rotation.md."""

from __future__ import annotations

import re

import pytest
import redis

import rmq_core
from rmq_core import PayloadError
from tests.core.leases import PATIENCE_S, snapshot
from tests.core.rotation.bench import KEYS, age, entries, now_s, put, rotation, within_one_second
from tests.core.worlds import World


def test_a_pop_of_an_empty_queue_returns_nothing(world: World) -> None:
    assert rotation(world).safe_pop() is None


def test_a_pushed_id_is_stored_unchanged_in_the_list_named_after_the_queue(world: World) -> None:
    queue = rotation(world)
    queue.push("123")
    queue.push(b"456")
    assert entries(world) == [b"123", b"456"]


def test_any_program_can_push_ids_with_lpush(world: World) -> None:
    world.client.lpush("q", "123")
    assert rotation(world).safe_pop() == "123"


def test_a_pop_returns_the_id_and_pushes_it_again_with_a_stamp(world: World) -> None:
    queue = rotation(world)

    def pop(now: int) -> bool:
        world.client.flushdb()
        queue.push("123")
        return queue.safe_pop() == "123" and entries(world) == [b"123|%d" % now]

    assert within_one_second(world, pop)


def test_ids_are_popped_in_the_order_in_which_they_were_pushed(world: World) -> None:
    queue = rotation(world)
    for one in "abc":
        queue.push(one)
    assert [queue.safe_pop() for _ in range(4)] == ["a", "b", "c", None]


def test_an_id_in_progress_rotates_with_its_timestamp_and_is_not_delivered(world: World) -> None:
    queue = rotation(world)
    stamp = now_s(world) - 5
    put(world, f"a|{stamp}", f"b|{stamp}")
    assert queue.safe_pop() is None
    assert entries(world) == [b"a|%d" % stamp, b"b|%d" % stamp]


def test_an_id_is_late_only_after_more_than_the_timeout(world: World) -> None:
    queue = rotation(world, timeout=30)

    def pop(now: int) -> tuple[str | None, list[bytes], int]:
        put(world, f"a|{now - 30}", f"b|{now - 31}")
        return queue.safe_pop(), entries(world), now

    popped, left, now = within_one_second(world, pop)
    assert popped == "b"
    assert left == [b"a|%d" % (now - 30), b"b|%d" % now]


def test_a_late_id_is_delivered_again_with_a_new_timestamp(world: World) -> None:
    queue = rotation(world)
    queue.push("a")
    assert queue.safe_pop() == "a"
    age(world)
    assert (queue.safe_pop(), queue.safe_pop()) == ("a", None)


def test_an_id_that_is_done_is_removed_from_list_and_done_set(world: World) -> None:
    queue = rotation(world)
    queue.push("a")
    queue.safe_pop()
    assert queue.mark_done("a") is True
    assert world.client.zrange(KEYS.done, 0, -1, withscores=True) == [(b"a", 1)]
    assert queue.safe_pop() is None
    assert world.client.exists(KEYS.list, KEYS.done, KEYS.taken) == 0


def test_an_id_that_is_done_and_late_is_removed_and_not_delivered(world: World) -> None:
    queue = rotation(world)
    queue.push("a")
    queue.safe_pop()
    age(world)
    queue.mark_done("a")
    assert queue.safe_pop() is None
    assert entries(world) == []


def test_an_id_cannot_be_done_before_it_is_popped(world: World) -> None:
    queue = rotation(world)
    queue.push("a")
    assert queue.mark_done("a") is False
    assert world.client.exists(KEYS.done) == 0
    assert queue.safe_pop() == "a"
    age(world)
    assert queue.safe_pop() == "a"


def test_marking_an_unknown_id_or_one_twice_as_done_leaves_nothing(world: World) -> None:
    queue = rotation(world)
    queue.push("a")
    queue.safe_pop()
    before = snapshot(world.client)
    assert queue.mark_done("b") is False
    assert snapshot(world.client) == before
    assert [queue.mark_done("a"), queue.mark_done("a")] == [True, False]
    queue.safe_pop()
    assert queue.mark_done("a") is False
    assert world.client.exists(KEYS.done) == 0


def test_both_holders_of_a_late_id_may_mark_it_as_done(world: World) -> None:
    queue = rotation(world)
    queue.push("a")
    queue.safe_pop()
    age(world)
    queue.safe_pop()
    assert [queue.mark_done("a"), queue.safe_pop(), queue.mark_done("a")] == [True, None, False]
    queue.push("a")
    assert queue.safe_pop() == "a", "a late mark must not drop the next job of that id"
    assert queue.safe_pop() is None
    age(world)
    assert queue.safe_pop() == "a", "a late mark must not drop it while it is in progress either"


def test_an_id_can_be_used_again_before_its_done_entry_is_dropped(world: World) -> None:
    queue = rotation(world)
    queue.push("a")
    queue.safe_pop()
    queue.mark_done("a")
    queue.push("a")
    assert queue.safe_pop() == "a"
    assert (world.client.exists(KEYS.done), len(entries(world))) == (0, 1)
    assert queue.mark_done("a") is True


def test_an_id_pushed_twice_is_delivered_twice_and_one_done_mark_ends_one_of_them(world: World) -> None:
    queue = rotation(world)
    queue.push("a")
    queue.push("a")
    assert [queue.safe_pop(), queue.safe_pop(), queue.safe_pop()] == ["a", "a", None]
    assert queue.mark_done("a") is True
    assert (queue.safe_pop(), len(entries(world))) == (None, 1)
    age(world)
    assert queue.safe_pop() == "a"
    assert [queue.mark_done("a"), queue.mark_done("a"), queue.safe_pop()] == [True, False, None]


def test_an_id_pushed_twice_and_done_twice_is_removed(world: World) -> None:
    queue = rotation(world)
    queue.publish_many(["a", "a", "a"])
    queue.claim(max_messages=3)
    assert [queue.mark_done("a"), queue.mark_done("a"), queue.stats().leased] == [True, True, 1]
    assert (queue.safe_pop(), len(entries(world)), world.client.exists(KEYS.done)) == (None, 1, 0)


@pytest.mark.parametrize(
    "name",
    ["a|b", "a|", "|", "|5", "a|5", "a|5|6", "a|0", "|0", "a|1417696237", "1|1417696237|0", "a\n|0", "ż|ó ł", "%"],
)
def test_an_id_may_contain_the_separator(world: World, name: str) -> None:
    queue = rotation(world)
    queue.push(name)
    assert (queue.safe_pop(), queue.safe_pop()) == (name, None)
    assert re.fullmatch(rb"(?s)%b\|\d{10}" % re.escape(name.encode()), entries(world)[0])
    age(world)
    assert (queue.safe_pop(), queue.safe_pop()) == (name, None)
    assert queue.mark_done(name) is True
    assert (queue.safe_pop(), entries(world)) == (None, [])


def test_ids_of_any_bytes_are_returned_unchanged(world: World) -> None:
    queue = rotation(world)
    queue.push(b"\xff\x00|")
    popped = queue.safe_pop()
    assert popped.encode("utf-8", "surrogateescape") == b"\xff\x00|"
    assert queue.mark_done(popped) is True
    queue.push(b"\xff")
    lease = queue.claim()
    assert (lease.message.payload, queue.ack(lease).settled) == (b"\xff", 1)


@pytest.mark.parametrize("decode", [True, False])
def test_clients_that_decode_and_clients_that_do_not_see_the_same_ids(
    redis_client: redis.Redis, server_url: str, *, decode: bool
) -> None:
    redis_client.lpush("q", "żółw")
    with redis.Redis.from_url(server_url, decode_responses=decode) as client:
        queue = rmq_core.RotationQueue(client, "q")
        queue.push("second")
        assert [queue.safe_pop(), queue.safe_pop()] == ["żółw", "second"]
        assert queue.mark_done("żółw") is True
        queue.close()


def test_ids_in_progress_do_not_hide_new_ids_behind_them(world: World) -> None:
    queue = rotation(world)
    put(world, f"a|{now_s(world)}", f"b|{now_s(world)}", "fresh")
    assert queue.safe_pop() == "fresh"


def test_a_pop_rotates_the_list_at_most_once(world: World) -> None:
    queue = rotation(world)
    stamp = now_s(world)
    put(world, *[f"{number}|{stamp}" for number in range(2500)])
    before = entries(world)
    world.client.config_resetstat()
    assert queue.safe_pop() is None
    assert entries(world) == before
    assert world.client.info("commandstats")["cmdstat_lmove"]["calls"] == 2500


def test_a_new_id_behind_thousands_in_progress_is_found(world: World) -> None:
    queue = rotation(world)
    put(world, *[f"{number}|{now_s(world)}" for number in range(2500)], "fresh")
    assert queue.safe_pop() == "fresh"


def test_thousands_of_done_entries_are_dropped_in_one_pop(world: World) -> None:
    queue = rotation(world)
    queue.publish_many(str(number) for number in range(2500))
    while lease := queue.claim(max_messages=1000):
        queue.ack(lease)
    queue.push("fresh")
    assert queue.safe_pop() == "fresh"
    assert len(entries(world)) == 1


def test_each_id_goes_to_one_of_many_poppers(world: World) -> None:
    sent = [str(number) for number in range(300)]
    rotation(world).publish_many(sent)

    def pop_all(queue: rmq_core.RotationQueue) -> list[str]:
        return list(iter(queue.safe_pop, None))

    popping = [world.in_background(pop_all, rotation(world)) for _ in range(5)]
    found = [one for poppers in popping for one in poppers.result(PATIENCE_S)]
    assert sorted(found) == sorted(sent)


def test_timestamps_come_from_the_server(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 0.0)
    queue = rotation(world)
    queue.push("a")
    queue.safe_pop()
    stamp = int(entries(world)[0].rpartition(b"|")[2])
    assert abs(stamp - now_s(world)) <= 300


def test_a_timestamp_far_in_the_future_does_not_block_its_id_forever(world: World) -> None:
    put(world, f"a|{now_s(world) + 3600}")
    assert rotation(world).safe_pop() == "a"


def test_two_queues_do_not_share_their_done_sets(world: World) -> None:
    one, other = rotation(world, "one"), rotation(world, "other")
    for queue in (one, other):
        queue.push("a")
        queue.safe_pop()
    one.mark_done("a")
    assert (one.safe_pop(), other.safe_pop()) == (None, None)
    assert (entries(world, "one"), len(entries(world, "other"))) == ([], 1)


@pytest.mark.parametrize("value", ["", b"", None, 5, {"a": 1}, "\ud800"])
def test_a_value_that_is_not_an_id_is_refused(world: World, value: object) -> None:
    queue = rotation(world)
    for call in (queue.push, queue.publish, queue.mark_done):
        with pytest.raises(PayloadError):
            call(value)
    assert world.client.dbsize() == 0


def test_a_list_key_of_another_type_is_refused_and_left_alone(world: World) -> None:
    world.client.set("q", "x")
    before = snapshot(world.client)
    for call in (lambda queue: queue.push("a"), lambda queue: queue.safe_pop()):
        with pytest.raises(rmq_core.errors.WrongKeyType):
            call(rotation(world))
    assert snapshot(world.client) == before | {
        key: value for key, value in snapshot(world.client).items() if b"rmq:queues" in key
    }
