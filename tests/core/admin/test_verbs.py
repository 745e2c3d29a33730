"""The verbs of operators in every discipline: what it can do works, and what it cannot do is said."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from types import SimpleNamespace
from typing import Any

import pytest

from rmq_core import LeaseLost, LeaseOwnedByOther, Match, Unsupported
from rmq_core.admin.verbs import VERBS, can, check_conditions, conditional, lacked
from rmq_core.kernel.base import tools_of
from rmq_core.observe.fact import Act
from rmq_core.protocol import DISCIPLINES
from tests.core.conformance.kits import KITS, LONG_S
from tests.core.worlds import World

CHOOSING = ("jobs", "leased")
"""The disciplines that search messages and change those that meet conditions."""


def opened(world: World, discipline: str) -> Any:
    return world.open(discipline, "q", KITS[discipline].config("q", LONG_S))


def killed(queue: Any, reasons: list[str]) -> None:
    """Make a dead letter for each reason, in this order."""
    for number, reason in enumerate(reasons):
        queue.publish({"order": number})
        for _ in range(2):
            queue.nack(queue.claim(), reason=reason)
    assert queue.stats().dead == len(reasons)


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_a_verb_that_a_discipline_cannot_do_is_refused_and_names_those_that_can(world: World, discipline: str) -> None:
    queue = opened(world, discipline)
    own = getattr(queue, "inner", queue)
    for name in lacked():
        if not can(own, name):
            with pytest.raises(Unsupported, match=r"use .*leased"):
                getattr(queue.admin, name)
    for name in ("redrive", "purge"):
        if not conditional(own, name):
            with pytest.raises(Unsupported, match="use leased or"):
                check_conditions(own, name)


def test_every_method_for_operators_is_one_that_a_refusal_can_name() -> None:
    admins = [each.load().admin for each in DISCIPLINES.values()]
    listed = {name for admin in admins for name in dir(admin) if not name.startswith("_")}
    assert listed == set(lacked())
    assert {str(act) for act in Act} <= {verb.word for verb in VERBS.values() if verb.past != "changed"}
    assert not any(hasattr(each.load(), name) for each in DISCIPLINES.values() for name in lacked())
    for admin in admins:
        with pytest.raises(AttributeError, match="redirve"):
            admin(SimpleNamespace(discipline="leased", _engine=None)).redirve  # noqa: B018


GIVEN = {"queue": {}, "lease": {"lease_id": True, "if_owner": False}, "owner": {}, "message": {"message_id": True}}


@pytest.mark.parametrize("name", [name for name, verb in VERBS.items() if verb.needs != "selection"])
def test_the_record_of_a_verb_has_the_arguments_of_its_method(name: str) -> None:
    verb = VERBS[name]
    kinds = [kind for each in DISCIPLINES.values() if can(kind := each.load(), name)]
    assert kinds
    for kind in kinds:
        _, *parameters = signature(getattr(kind.admin, name)).parameters.values()
        required = {each.name: each.default is each.empty for each in parameters if each.kind is not each.VAR_KEYWORD}
        assert required == GIVEN[verb.needs] | {each.name: each.required for each in verb.takes}, kind


@pytest.mark.parametrize("discipline", CHOOSING)
def test_a_search_finds_messages_page_by_page(world: World, discipline: str) -> None:
    queue = opened(world, discipline)
    queue.publish_many([{"order": number} for number in range(2_100)])
    held = queue.claim()
    found, page = [], queue.admin.search("ready", Match(text="77"))
    assert page.scanned <= 1_000
    assert page.total == 2_099
    while True:
        found += [message.payload for message in page.messages]
        if page.after is None:
            break
        page = queue.admin.search("ready", Match(text="77"), after=page.after)
    assert len(found) == sum("77" in str(number) for number in range(2_100))
    leased = queue.admin.search("leased", Match(text="order"))
    while not leased.messages and leased.after:
        leased = queue.admin.search("leased", Match(text="order"), after=leased.after)
    assert [message.payload for message in leased.messages] == [held.message.payload]


@pytest.mark.parametrize("discipline", CHOOSING)
def test_dead_letters_of_one_cause_are_found_grouped_and_redriven(world: World, discipline: str) -> None:
    queue = opened(world, discipline)
    killed(queue, ["timeout after 3 s", "bad row 7", "timeout after 12 s", "timeout after 1 s"])
    assert [(group.reason, group.count) for group in queue.admin.dead_reasons()] == [
        ("timeout after # s", 3),
        ("bad row #", 1),
    ]
    assert queue.admin.redrive(2, where=Match(reason="timeout after # s")) == 2
    assert queue.admin.redrive(where=Match(text='"order":3')) == 1
    assert queue.admin.redrive(where=Match(reason="timeout after # s")) == 0
    assert [queue.claim().message.payload["order"] for _ in range(3)] == [0, 2, 3]
    assert queue.claim() is None
    (left,) = queue.admin.dead_letters()
    assert left.payload == {"order": 1}


@pytest.mark.parametrize("discipline", CHOOSING)
def test_a_redriven_letter_has_a_fresh_budget_and_its_history(world: World, discipline: str) -> None:
    queue = opened(world, discipline)
    killed(queue, ["broken"])
    assert queue.admin.redrive(where=Match(reason="broken")) == 1
    (message,) = queue.admin.peek()
    assert (message.deliveries, len(message.history)) == (0, 2)


@pytest.mark.parametrize("discipline", CHOOSING)
def test_dead_letters_are_deleted_by_condition_and_by_id(world: World, discipline: str) -> None:
    queue = opened(world, discipline)
    killed(queue, ["a", "b", "a", "c"])
    assert queue.admin.purge("dead", where=Match(reason="a")) == 2
    (newest, oldest) = queue.admin.dead_letters()
    assert queue.admin.discard([oldest.id, "unknown"]) == 1
    assert [letter.id for letter in queue.admin.dead_letters()] == [newest.id]


def test_many_dead_letters_of_job_queues_are_chosen_too(world: World) -> None:
    queue = opened(world, "jobs")
    queue.publish_many([{"order": number} for number in range(2_600)])
    for _ in range(2):
        while lease := queue.claim(max_messages=1_000):
            queue.nack(lease, reason="broken")
    while lease := queue.claim(max_messages=1_000):
        queue.nack(lease, reason="broken")
    assert queue.stats().dead == 2_600
    even = [f'"order":{digit}' for digit in (1, 2)]
    chosen = [queue.admin.redrive(where=Match(text=text)) for text in even]
    assert chosen == [sum(str(n).startswith(digit) for n in range(2_600)) for digit in "12"]
    assert queue.stats()[:1] == (sum(chosen),)
    assert queue.stats().dead == 2_600 - sum(chosen)


@pytest.mark.parametrize("discipline", ["leased", "jobs"])
def test_a_lease_is_expired_by_its_id(world: World, discipline: str) -> None:
    queue = opened(world, discipline)
    queue.publish_many([{"order": number} for number in range(3)])
    lease = queue.claim(max_messages=2, lease_id="job", owner="gone")
    with pytest.raises(LeaseOwnedByOther):
        queue.admin.expire_lease("job", if_owner="somebody else")
    assert queue.admin.expire_lease("job", if_owner="gone").settled == 2
    assert queue.stats()[:4] == (3, 0, 0, 0)
    assert max(message.deliveries for message in queue.admin.peek(3)) == 1
    for call in (queue.ack, queue.extend):
        with pytest.raises(LeaseLost):
            call(lease)
    with pytest.raises(LeaseLost):
        queue.admin.expire_lease("job")


@pytest.mark.parametrize("discipline", ["leased", "jobs"])
def test_a_delayed_message_is_run_now(world: World, discipline: str) -> None:
    queue = opened(world, discipline)
    later = queue.publish({"order": 1}, delay=3600).id
    assert queue.admin.search("delayed", Match(message_id=later)).due
    assert queue.admin.run_now(later)
    assert not queue.admin.run_now(later)
    assert queue.claim().message.id == later


@pytest.mark.parametrize("discipline", ["leased", "jobs"])
def test_a_ready_or_delayed_message_is_cancelled_and_a_held_one_is_not(world: World, discipline: str) -> None:
    queue = opened(world, discipline)
    ids = [queue.publish({"order": number}).id for number in range(4)]
    later = queue.publish({"order": 4}, delay=3600).id
    held = queue.claim(lease_id="job")
    assert [queue.admin.cancel(each) for each in (later, ids[2], ids[0], "unknown")] == [True, True, False, False]
    assert [queue.admin.cancel(each) for each in (later, ids[2])] == [False, False]
    assert queue.stats()[:4] == (2, 0, 1, 1)
    assert queue.ack(held).settled == 1
    assert [queue.claim().message.payload["order"] for _ in range(2)] == [1, 3]


@pytest.mark.parametrize("discipline", ["leased", "jobs"])
def test_a_message_of_a_paused_queue_is_cancelled(world: World, discipline: str) -> None:
    queue = opened(world, discipline)
    ids = [queue.publish({"order": number}).id for number in range(3)]
    held = queue.claim()
    queue.admin.pause()
    assert [queue.admin.cancel(each) for each in (ids[0], ids[1])] == [False, True]
    queue.admin.resume()
    assert queue.ack(held).settled == 1
    assert queue.claim().message.payload == {"order": 2}


@pytest.mark.parametrize("discipline", ["leased", "jobs"])
def test_a_key_that_the_publisher_named_is_freed_with_its_message(world: World, discipline: str) -> None:
    queue = opened(world, discipline)
    for delay in (None, 3600):
        for named in (None, "order 7"):
            message_id = queue.publish({"order": 7}, dedup_key="order 7", delay=delay).id
            assert queue.admin.cancel(message_id, dedup_key=named)
            assert queue.publish({"order": 8}, dedup_key="order 7").accepted == bool(named)
            queue.admin.purge("ready")
            queue.admin.forget("order 7")


def test_a_cancelled_ready_job_can_be_added_again(world: World) -> None:
    queue = opened(world, "jobs")
    queue.publish_many([{"order": number} for number in range(2_100)])
    assert queue.add_unique("job", {"n": 1}, job_id="mine").accepted
    assert not queue.add_unique("job", {"n": 2}, job_id="mine").accepted
    assert queue.admin.cancel("mine")
    assert queue.add_unique("job", {"n": 2}, job_id="mine").accepted
    assert queue.stats().ready == 2_101


@pytest.mark.parametrize("discipline", ["leased", "jobs"])
def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(world: World, discipline: str) -> None:
    queue = opened(world, discipline)
    queue.publish_many([{"order": number} for number in range(3)])
    held = queue.claim(lease_id="job")
    for _ in range(2):
        queue.admin.pause()
    assert queue.stats().paused
    assert queue.claim() is None
    queue.publish({"order": 3})
    assert [message.payload["order"] for message in queue.admin.peek(9)] == [1, 2, 3]
    assert queue.stats()[:3] == (3, 0, 1)
    assert len(tools_of(queue).export_page("ready").messages) == 3
    assert queue.ack(held).settled == 1
    for _ in range(2):
        queue.admin.resume()
    assert not queue.stats().paused
    assert [queue.claim().message.payload["order"] for _ in range(3)] == [1, 2, 3]
    assert queue.claim() is None


@pytest.mark.parametrize("discipline", ["leased", "jobs"])
def test_ready_messages_of_a_paused_queue_can_be_purged(world: World, discipline: str) -> None:
    queue = opened(world, discipline)
    queue.publish_many([{"order": number} for number in range(3)])
    queue.claim()
    queue.admin.pause()
    assert queue.admin.purge("ready") == 2
    queue.admin.resume()
    queue.publish({"order": 9})
    assert queue.claim().message.payload == {"order": 9}


def fail_alone(world: World, discipline: str, queue: Any, how: str) -> None:
    queue.publish({"order": 1})
    for _ in range(2):
        lease = queue.claim()
        if how == "expired":
            kit = KITS[discipline]
            assert kit.let_pass is not None
            kit.let_pass(world.client, "q", 2 * LONG_S)
            queue.backlog()
            if kit.recover is not None:
                kit.recover(queue)
        else:
            queue.nack(lease, lease.messages if how == "some" else None)


@pytest.mark.parametrize("how", ["all", "some", "expired"])
@pytest.mark.parametrize("discipline", [*CHOOSING, "reliable"])
def test_dead_letters_that_are_deleted_are_counted_and_logged(
    world: World, discipline: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = world.open(discipline, "q", replace(KITS[discipline].config("q", LONG_S), max_dead=2))
    for _ in range(5):
        fail_alone(world, discipline, queue, how)
    queue.close()
    assert queue.stats().dead == 2
    if discipline in CHOOSING:
        assert (queue.admin.totals().dropped, queue.admin.totals().dead) == (3, 5)
    deleted = [record.getMessage() for record in caplog.records if "oldest dead letters" in record.getMessage()]
    assert len(deleted) == 3
    assert all("'q' deleted its 1 oldest" in text and "max_dead=2" in text for text in deleted)
