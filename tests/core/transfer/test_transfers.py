"""Exports and imports of queues on a server: every state, every discipline, and whatever moves meanwhile."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import redis

from rmq_core import LeasedConfig, NewMessage, QueueFull, Unsupported
from rmq_core.envelope.export_record import StoredMessage
from rmq_core.errors import ConfigurationError, ImportConflict, QueueChanged
from rmq_core.jobs import JobsConfig
from rmq_core.kernel.base import tools_of
from rmq_core.reliable import ReliableConfig
from rmq_core.transfer.exporting import Export, ExportFile
from rmq_core.transfer.importing import Import, ImportOptions
from rmq_core.transfer.moving import move
from tests.core.leases import expire
from tests.core.worlds import World

PAYLOADS: list[Any] = [{"n": 1, "deep": [1, None, {"ä": 2.5}]}, "text ✓", b"\x00\xff", [1, 2], "", {}]


def lines_of(queue: Any, **options: Any) -> list[bytes]:
    return list(Export(queue, "0", **options).lines())


def moved(queue: Any, lines: Sequence[bytes], name: str = "a", **options: Any) -> Any:
    return Import(queue, name, ImportOptions(**options)).run(ExportFile(lines))


def stocked(world: World, name: str = "q") -> Any:
    """A paused leased queue with messages in every state but leased."""
    queue = world.queue(name)
    strict = world.queue(name, LeasedConfig(max_deliveries=1))
    queue.publish_many([f"dead {n}" for n in range(4)], headers={"of": "dead"})
    strict.nack(strict.claim(max_messages=2), reason="it broke")
    strict.nack(strict.claim(max_messages=2), reason="it broke, too")
    queue.publish_many([f"suspect {n}" for n in range(6)])
    for _ in range(2):
        queue.nack(queue.claim(max_messages=6), reason="together")
    for delay in (1000, 500, 500.0001, 2000):
        queue.publish_many(PAYLOADS, delay=delay, headers={"k": "ü"})
    queue.publish_many(PAYLOADS)
    queue.publish_many([{"n": n} for n in range(2500)])
    queue.publish("with headers", headers={"b": "1", "a": "2"})
    queue.admin.pause()
    return queue


def picture(client: redis.Redis, name: str) -> list[Any]:
    """What a leased queue holds, as it is stored."""
    lists = [client.lrange(f"rmq:{{{name}}}:{key}", 0, -1) for key in ("ready", "dead")]
    return [*lists, client.zrange(f"rmq:{{{name}}}:delayed", 0, -1, withscores=True)]


def test_a_queue_in_every_state_arrives_byte_for_byte(world: World) -> None:
    queue = stocked(world)
    stats, before = queue.stats(), picture(world.client, "q")
    assert stats.isolated
    assert stats.dead == 4
    lines = lines_of(queue)
    assert picture(world.client, "q") == before
    target = world.queue("target")
    report = moved(target, lines)
    assert picture(world.client, "target") == before
    assert report.states == {"delayed": 24, "isolated": 6, "ready": stats.ready - 6, "dead": 4}
    assert target.stats()[:2] == stats[:2]
    assert moved(target, lines).imported == 0
    assert picture(world.client, "target") == before


def test_imported_messages_are_claimed_redriven_and_isolated_as_others_are(world: World) -> None:
    target = world.queue("target")
    moved(target, lines_of(stocked(world)))
    seen: Counter[str] = Counter()
    while lease := target.claim(max_messages=1000):
        assert all("suspect" not in str(message.payload) for message in lease.messages) or lease.isolation
        seen.update(str(message.payload) for message in lease.messages)
        target.ack(lease)
    assert seen["suspect 3"] == seen["text ✓"] == 1
    assert [message.history[-1].reason for message in target.admin.dead_letters(4)] == ["it broke, too"] * 2 + [
        "it broke"
    ] * 2
    assert target.admin.redrive() == 4
    assert target.claim(max_messages=4).messages[0].headers == {"of": "dead"}


def test_an_import_wakes_a_waiting_consumer(world: World) -> None:
    source, target = world.queue(), world.queue("target")
    source.publish("a")
    source.admin.pause()
    lines = lines_of(source)
    waiting = world.in_background(target.claim, wait=60)
    while not world.client.zcard("rmq:{target}:waiters"):
        time.sleep(0.01)
    moved(target, lines)
    assert waiting.result(timeout=30).messages[0].payload == "a"


def test_the_fence_of_the_target_passes_the_groups_that_arrive(world: World) -> None:
    source = stocked(world)
    world.client.incrby("rmq:{q}:fence", 1000)
    source.admin.resume()
    source.publish_many(["late suspect 1", "late suspect 2"])
    target = world.queue("target")
    source.admin.pause()
    moved(target, lines_of(source))
    low = min(score for _, score in world.client.zrange("rmq:{target}:delayed", 0, -1, withscores=True))
    assert int(world.client.get("rmq:{target}:fence") or 0) > -low / 2


@pytest.mark.parametrize("target", ["leased", "jobs"])
@pytest.mark.parametrize("source", ["leased", "jobs", "reliable"])
def test_ids_headers_history_and_times_survive_a_change_of_the_discipline(
    world: World, source: str, target: str
) -> None:
    configs: dict[str, Any] = {
        "leased": LeasedConfig(max_deliveries=2),
        "jobs": JobsConfig(max_attempts=1),  # it gives a failed job back behind the others
        "reliable": ReliableConfig(max_deliveries=2),
    }
    queue = world.open(source, "q", configs[source])
    queue.publish_many([{"n": n} for n in range(30)], headers={"k": "v"})
    if source != "reliable":
        queue.publish("later", delay=3000)
    for _ in range(2):
        queue.nack(queue.claim(), reason="no luck")
    known = {message.id: message for message in (*queue.admin.peek(100), *queue.admin.dead_letters(10))}
    lines = lines_of(queue, live=True)
    other = world.open(target, "target")
    moved(other, lines)
    arrived = [*other.admin.peek(100), *other.admin.dead_letters(10)]
    assert queue.stats().dead == other.stats().dead >= 1
    for message in arrived:
        before = known.get(message.id)
        if before is None:
            assert message.payload == "later"
            continue
        assert (message.payload, message.headers, message.enqueued_ms) == (
            before.payload, before.headers, before.enqueued_ms
        )  # fmt: skip
        assert (message.deliveries, message.history) == (before.deliveries, before.history)
    if source != "reliable":
        assert other.stats().delayed == 1


def test_jobs_keep_their_names_and_options(world: World) -> None:
    queue, target = world.open("jobs"), world.open("jobs", "target")
    queue.add("send", {"to": "me"}, attempts=3)
    queue.add("count", 5, delay=3000)
    queue.add("count", None, delay=3000)
    lines = lines_of(queue, live=True)
    moved(target, lines)
    assert lines_of(target, live=True)[1:-1] == lines[1:-1]
    other = world.open("leased", "other")
    moved(other, lines)
    arrived = [*other.admin.peek(10), *other.admin.browse("delayed").messages]
    assert sorted(repr(message.payload) for message in arrived) == ["5", "None", "{'to': 'me'}"]


def test_delayed_jobs_of_one_id_all_arrive(world: World) -> None:
    queue, target = world.open("jobs"), world.open("jobs", "target")
    for n in range(3):
        queue.add("a", {"n": n}, job_id="same", delay=1000 + n)
    moved(target, lines_of(queue, live=True))
    assert target.stats().delayed == 3
    assert lines_of(target, live=True)[1:-1] == lines_of(queue, live=True)[1:-1]


def test_an_export_of_a_stream_holds_stale_entries_and_then_new_ones(world: World) -> None:
    queue, target = world.open("streams"), world.queue("target")
    queue.publish_many([{"n": n} for n in range(2500)])
    queue.ack(queue.claim(max_messages=10))
    held = queue.claim(max_messages=5)
    queue.nack(queue.claim(max_messages=2))
    lines = lines_of(queue, live=True)
    assert moved(target, lines).imported == 2500 - 10 - 5
    ids = [message.id for message in target.admin.peek(5000)]
    assert ids == [entry[0].decode() for entry in world.client.xrange("rmq:{q}:stream")][15:]
    assert target.admin.peek(1)[0].deliveries == 1
    assert len(lines_of(queue, live=True, include_leased=True)) - 2 == 2485 + held.count


def test_an_export_of_a_rotation_holds_what_is_not_done(world: World) -> None:
    queue, target = world.open("rotation"), world.queue("target")
    queue.publish_many([f"id {n}" for n in range(2500)])
    for name in ("looks|1234567890", "a|0"):
        queue.push(name)
    done, held = queue.claim(max_messages=4), queue.claim(max_messages=3)
    queue.ack(done)
    lines = lines_of(queue, live=True)
    assert moved(target, lines).imported == 2502 - 7
    assert [message.payload for message in target.admin.peek(5000)] == [
        message.payload for message in queue.admin.peek(5000)
    ]
    assert len(lines_of(queue, live=True, include_leased=True)) - 2 == 2495 + held.count
    assert target.stats().oldest_age < 60


@pytest.mark.parametrize("discipline", ["reliable", "rotation", "streams"])
def test_queues_that_only_export_refuse_an_import_and_name_those_that_take_one(world: World, discipline: str) -> None:
    with pytest.raises(Unsupported, match=rf"'{discipline}' has no import; use leased or jobs"):
        Import(world.open(discipline), "a")


def test_a_live_queue_is_refused_unless_that_is_wanted(world: World) -> None:
    queue = world.queue()
    queue.publish("a")
    with pytest.raises(ConfigurationError, match="'q' is not paused: run `rmq pause QUEUE` first"):
        lines_of(queue)
    assert len(lines_of(queue, live=True)) == 3
    with pytest.raises(ConfigurationError, match="is reliable, which cannot be paused"):
        lines_of(world.open("reliable"))
    with pytest.raises(Unsupported, match="no delayed messages"):
        lines_of(world.open("reliable"), live=True, states=["delayed"])


def after(pages: int, lines: Any, change: Any) -> list[bytes]:
    """The lines of an export during which something changes, after so many messages."""
    found = list(itertools.islice(lines, pages))
    change()
    return [*found, *lines]


def test_messages_given_back_to_a_paused_queue_are_noticed(world: World) -> None:
    queue = world.queue()
    queue.publish_many([f"m{n}" for n in range(3000)])
    held = queue.claim(max_messages=5)
    queue.admin.pause()
    with pytest.raises(QueueChanged, match=r"'q' changed during its export: ready messages moved; .* --live"):
        after(1001, Export(queue, "0").lines(), lambda: queue.release(held))
    found = Export(queue, "0", live=True)
    assert len(after(1001, found.lines(), lambda: queue.admin.purge("ready"))) < 3000
    assert found.changed


def test_a_delay_that_ends_during_the_export_is_noticed(world: World) -> None:
    queue = world.queue()
    queue.publish("soon", delay=0.2)
    queue.publish_many([f"m{n}" for n in range(3000)])
    queue.admin.pause()

    def fall_due() -> None:
        time.sleep(0.3)
        queue.backlog()

    with pytest.raises(QueueChanged, match="1 delayed messages moved"):
        after(500, Export(queue, "0").lines(), fall_due)


def test_producers_may_go_on_while_a_paused_queue_is_exported(world: World) -> None:
    queue = world.queue()
    queue.publish_many([f"m{n}" for n in range(1500)])
    queue.admin.pause()
    found = after(500, Export(queue, "0").lines(), lambda: queue.publish("new"))
    assert len(found) == 1500 + 1 + 2


def test_delayed_messages_that_go_meanwhile_shift_no_others(world: World) -> None:
    queue = world.queue()
    queue.publish_many([f"m{n}" for n in range(1500)], delay=1000)
    queue.publish_many([f"n{n}" for n in range(1500)], delay=2000)
    found = Export(queue, "0", live=True)
    first = world.client.zrange("rmq:{q}:delayed", 0, 9)
    lines = after(1001, found.lines(), lambda: world.client.zrem("rmq:{q}:delayed", *first))
    assert len({line for line in lines if b'"state"' in line}) == len(lines) - 2 == 3000
    assert found.changed


def test_leased_messages_are_counted_or_exported_and_marked(world: World) -> None:
    queue = world.queue()
    queue.publish_many([f"m{n}" for n in range(2600)])
    lease, other = queue.claim(max_messages=2500, lease_id="load", owner="me"), queue.claim(max_messages=40)
    queue.ack(lease, [lease.messages[0].ref] if lease.messages else list(itertools.islice(queue.messages(lease), 1)))
    queue.admin.pause()
    plain = Export(queue, "0")
    assert len(list(plain.lines())) - 2 == 60
    assert plain.before.leased == 2499 + other.count
    found = lines_of(queue, include_leased=True)
    held = [line for line in found if b'"state":"leased"' in line]
    assert len(held) == 2539
    assert b'"lease":"load","owner":"me"' in b"".join(held)
    target = world.queue("target")
    assert moved(target, found).states == {"ready": 2599}


def test_all_shards_of_a_queue_are_exported_also_those_that_drain(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=1))
    queue.admin.configure(shards=4)
    texts = [f"m{number}" for number in range(1500)]
    queue.publish_many([NewMessage(text, dedup_key=text) for text in texts])
    queue.publish_many([NewMessage(text, dedup_key=text, delay=1000) for text in ("later", "last")])
    for _ in range(20):
        queue.nack(queue.claim(), reason="it broke")
    lease = queue.claim(max_messages=700, lease_id="load", owner="me")
    assert len(lease.parts) > 1
    queue.admin.configure(shards=2)
    queue.admin.pause()
    lines = lines_of(queue, include_leased=True)
    assert b"".join(lines).count(b'"lease":"load","owner":"me"') == 700
    target = world.queue("target")
    assert moved(target, lines).states == {"delayed": 2, "ready": 1480, "dead": 20}
    places = itertools.product(("ready", "delayed", "dead"), (0, 1000))
    pages = [target.admin.browse(state, place, 1000) for state, place in places]
    found = [message.payload for page in pages for message in page.messages]
    assert sorted(found) == sorted([*texts, "later", "last"])
    target.admin.configure(shards=3)
    assert target.stats().ready == 1480
    with pytest.raises(ConfigurationError, match="import is not possible in queue 'q'"):
        moved(queue, lines)


def test_a_shard_that_goes_during_an_export_ends_it_for_no_other(world: World) -> None:
    queue = world.queue(config=LeasedConfig(dedup_window=0.2))
    queue.admin.configure(shards=4)
    for number in range(40):
        queue.publish(str(number))
    queue.admin.configure(shards=1)
    export, lines = Export(queue, "0", live=True), []
    for line in export.lines():
        lines.append(line)
        if len(lines) == 3:
            while lease := queue.claim(max_messages=9):
                queue.ack(lease)
            time.sleep(0.3)
            queue.publish("new")
            assert len(queue.admin.configure(shards=1).stored["shards"].all) == 1
    assert export.changed
    assert sum(export.counts.values()) == len(lines) - 2 >= 10


def test_leased_messages_of_workers_are_exported(world: World) -> None:
    for discipline in ("reliable", "jobs"):
        queue = world.open(discipline)
        queue.publish_many([f"m{n}" for n in range(50)])
        queue.claim(max_messages=20)
        found = Export(queue, "0", live=True, include_leased=True)
        assert len(list(found.lines())) - 2 == 50
        assert +found.counts == {"leased": 20, "ready": 30}


@pytest.mark.parametrize("discipline", ["leased", "jobs"])
def test_a_target_without_room_for_dead_letters_refuses_them_whole(world: World, discipline: str) -> None:
    lines = lines_of(stocked(world), states=["dead"])
    configs: dict[str, Any] = {
        "leased": LeasedConfig(max_dead=3), "jobs": JobsConfig(max_dead=3),
    }  # fmt: skip
    with pytest.raises(QueueFull, match="max_dead is reached; `rmq configure` raises it"):
        moved(world.open(discipline, "target", configs[discipline]), lines)
    target = world.open(discipline, "target")
    assert target.stats().dead == 0
    moved(target, lines)
    assert target.stats().dead == 4


def test_a_target_without_room_for_messages_refuses_them_whole_and_takes_them_later(world: World) -> None:
    lines = lines_of(stocked(world))
    with pytest.raises(QueueFull, match="max_ready"):
        moved(world.queue("target", LeasedConfig(max_ready=1500)), lines)
    assert 0 < world.queue("target").stats().ready < 1500
    moved(world.queue("target"), lines)
    assert picture(world.client, "target") == picture(world.client, "q")


def test_a_second_importer_under_the_same_name_writes_nothing(world: World) -> None:
    queue = world.queue()
    entry = tools_of(queue).import_entry(StoredMessage("ready", b"0 1 0 m s0 x"))
    tools_of(queue).import_chunk("a", "", "open 1 1 - -", [entry])
    with pytest.raises(ImportConflict, match="another import 'a' into 'q' is running"):
        tools_of(queue).import_chunk("a", "", "open 1 1 - -", [entry])
    assert queue.stats().ready == 1
    assert tools_of(queue).import_progress("a")[0] == "open 1 1 - -"
    assert 6 * 86400 < world.client.ttl("rmq:{q}:import:a") <= 7 * 86400


def test_messages_of_a_killed_holder_are_exported_once_they_are_back(world: World) -> None:
    queue = world.queue()
    queue.publish_many(["a", "b"])
    expire(world, queue.claim(max_messages=2).id)
    queue.backlog()
    queue.admin.pause()
    assert len(lines_of(queue)) - 2 == 2


def test_an_import_into_a_key_of_another_type_writes_nothing(world: World) -> None:
    lines = lines_of(stocked(world))
    target = world.queue("target")
    world.client.set("rmq:{target}:dead", "x")
    with pytest.raises(Exception, match="another type"):
        moved(target, lines)
    assert tools_of(target).import_progress("a")[0] == ""
    assert world.client.exists("rmq:{target}:ready", "rmq:{target}:delayed") == 0


def test_a_move_takes_all_but_what_is_held_to_the_other_queue_and_back_and_again(world: World) -> None:
    source, target = stocked(world), world.queue("target")
    source.admin.resume()
    held = source.claim(lease=3600)
    for queue in (source, target):
        queue.admin.pause()
    before, many = picture(world.client, "q"), sum(source.stats()[at] for at in (0, 1, 4))
    for one, other in itertools.islice(itertools.cycle(itertools.permutations((source, target))), 3):
        assert move(one, other, "0", 5000) == (many, 0, one.stats().leased)
        assert (picture(world.client, other.name), picture(world.client, one.name)) == (before, [[], [], []])
    source.ack(held)


def test_a_move_into_a_new_queue_takes_the_stored_settings_along_but_changes_no_used_queue(world: World) -> None:
    source, used, new = world.queue(), world.queue("used"), world.queue("new")
    source.admin.configure(max_deliveries=4, groups="fair")
    source.publish("x", group="a")
    used.publish("y")
    for queue in (source, new):
        queue.admin.pause()
    assert move(source, new, "0", 10).moved == 1
    stored = "groups=fair, max_deliveries=4"
    assert [each.admin.settings().plain["settings"] for each in (source, new, used)] == [stored, stored, "nothing"]
    assert new.admin.groups()[0].name == "a"
    assert move(new, used, "0", 10).moved == 1
    assert used.admin.settings().stored == {}


def test_a_move_that_was_interrupted_is_repeated_and_moves_each_message_once(world: World) -> None:
    source, target = stocked(world), world.queue("target", LeasedConfig(max_ready=1500))
    before = picture(world.client, "q")
    with pytest.raises(QueueFull):
        move(source, target, "0", 5000)
    assert target.stats().ready > 0
    assert picture(world.client, "q") == before
    move(source, world.queue("target"), "0", 5000)
    assert (picture(world.client, "target"), sum(source.stats()[:5])) == (before, 0)


def test_a_move_is_refused_that_could_lose_or_double_messages(world: World) -> None:
    source, target = world.queue(), world.queue("target")
    source.publish_many(["a", "b"])
    with pytest.raises(ConfigurationError, match="is not paused"):
        move(source, target, "0", 5000)
    source.admin.pause()
    with pytest.raises(ConfigurationError, match="another queue than 'q'"):
        move(source, world.queue(), "0", 5000)
    with pytest.raises(ConfigurationError, match="has 2 messages, more than the 1"):
        move(source, target, "0", 1)
    with pytest.raises(Unsupported, match="move of its messages"):
        move(world.open("jobs", "jobs"), target, "0", 5000)
    with pytest.raises(Unsupported, match="import"):
        move(source, world.open("reliable", "list"), "0", 5000)
    assert (source.stats().ready, target.stats().ready) == (2, 0)


def test_a_message_that_goes_while_it_is_moved_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = world.queue(), world.queue("target")
    first = source.publish("a").id
    source.publish("b")
    source.admin.pause()
    monkeypatch.setattr(Import, "forget", lambda _: source.admin.cancel(first))
    assert move(source, target, "0", 5000) == (2, 1, 0)
    assert (source.stats().ready, target.stats().ready) == (0, 2)
