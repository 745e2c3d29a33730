"""What the console does to one queue, lease or message, and what it answers when that is not possible any more."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from rmq_core import LeasedQueue, LeaseLost, open_queue
from rmq_core.admin.verbs import offered
from tests.console.conftest import QUEUE, bury, fetch, post
from tests.console.host import Kept
from tests.console.test_rights import needed

ENDED = "this lease has ended in the meantime"


async def test_a_queue_is_paused_and_resumed(page: httpx.AsyncClient, queue: LeasedQueue) -> None:
    queue.publish("x")
    assert await post(page, "pause") == {"paused": True}
    assert (queue.stats().paused, queue.claim()) == (True, None)
    assert (await fetch(page, "queue"))["pause"] == "paused by changer (console)"
    assert await post(page, "resume") == {"paused": False}
    assert "pause" not in await fetch(page, "queue")
    assert queue.claim() is not None


async def test_the_messages_of_a_queue_are_moved_to_another(
    page: httpx.AsyncClient, queue: LeasedQueue, audit: Kept
) -> None:
    bury(queue, "bad")
    queue.publish_many([*"abc"])
    queue.claim(lease=3600)
    assert "is not paused" in (await post(page, "move", 400, target="aside"))["detail"]
    queue.admin.pause()
    assert await post(page, "move", target="aside") == {"moved": 3, "missing": 0, "held": 1}
    assert audit.lines[-1]["outcome"] == "done: messages moved: 3, not found any more: 0, held and not moved: 1"
    found = await fetch(page, "queue", name="aside")
    assert (found["discipline"], found["ready"], found["dead"], found["paused"]) == ("leased", 2, 1, False)
    assert queue.stats()[:5] == (0, 0, 1, 1, 0)
    assert [mark.by for mark in queue.admin.marks() if mark.kind == "purge"] == ["changer (console)"] * 2


async def test_a_queue_that_paused_itself_says_why(page: httpx.AsyncClient, queue: LeasedQueue) -> None:
    queue.admin.configure(pause_after_dead="2 in 10m", max_deliveries=1)
    bury(queue, "bad", "bad")
    found = await fetch(page, "queue")
    assert (found["paused"], found["pause"]) == (True, "paused by the breaker: 2 dead letters within 10 minutes")
    queue.client.set(f"rmq:{{{QUEUE}}}:history", "not a hash")
    assert "pause" not in await fetch(page, "queue")


async def test_a_lease_that_is_expired_counts_a_delivery_and_fences_its_holder_off(
    page: httpx.AsyncClient, queue: LeasedQueue
) -> None:
    queue.publish_many(["a", "b"])
    held = queue.claim(max_messages=2, owner="gone", lease_id="l", lease=3600)
    assert held is not None
    assert await post(page, "expire", lease_id="l", owner="gone") == {"expired": 2, "dead": 0}
    with pytest.raises(LeaseLost):
        queue.ack(held)
    assert [queue.stats().ready, queue.stats().leases] == [2, 0]


@pytest.mark.parametrize(("verb", "word"), [("expire", "expired"), ("release", "released")])
async def test_a_lease_is_ended_only_if_it_is_what_the_page_showed(
    page: httpx.AsyncClient, queue: LeasedQueue, verb: str, word: str
) -> None:
    queue.publish("x")
    held = queue.claim(owner="other", lease_id="l", lease=3600)
    assert held is not None
    refused = await post(page, verb, 409, lease_id="l", owner="me")
    assert refused["detail"].startswith(f"nothing was {word}: it is owned by 'other'")
    queue.ack(held)
    for lease_id in ("l", "unheard-of"):
        gone = await post(page, verb, 409, lease_id=lease_id, owner="other")
        assert gone["detail"] == f"nothing was {word}: {ENDED}"


async def test_chosen_dead_letters_are_deleted_and_the_others_stay(page: httpx.AsyncClient, queue: LeasedQueue) -> None:
    first, second, third = bury(queue, *"abc")
    assert await post(page, "discard", message_ids=[first, third, "unknown"]) == {"discarded": 2}
    assert [letter.id for letter in queue.admin.dead_letters()] == [second]


async def test_a_dead_letter_is_retried_with_another_payload_and_other_headers(
    page: httpx.AsyncClient, queue: LeasedQueue, audit: Kept
) -> None:
    (letter,) = bury(queue, "bad", payload={"path": "s3://wrong", "secret": "old"})
    change = {"payload": '{"path": "s3://right"}', "headers": {"fixed": "yes"}}
    assert await post(page, "edit", message_id=letter, **change) == {"ready": True}
    message = queue.claim().message  # type: ignore[union-attr]
    assert (message.id, message.payload, dict(message.headers)) == (letter, {"path": "s3://right"}, {"fixed": "yes"})
    assert [(each.kind, each.owner) for each in message.history] == [("nack", "task:etl/load"), ("edited", "changer")]
    assert "s3://right" not in str(audit.lines)
    assert audit.lines[-1]["changed"] == "payload and headers"
    refused = await post(page, "edit", 409, message_id=letter, payload="{}")
    assert refused["detail"] == "nothing was changed: this message is not a dead letter any more"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"payload": "{"}, "the payload is not JSON"),
        ({"payload": "NaN"}, "payload"),
        ({"payload": "null"}, "payload"),
        ({}, "payload or headers must be given"),
    ],
)
async def test_an_edit_that_cannot_be_stored_changes_nothing(
    page: httpx.AsyncClient, queue: LeasedQueue, change: dict[str, Any], why: str
) -> None:
    (letter,) = bury(queue, "bad")
    assert why in (await post(page, "edit", 400, message_id=letter, **change))["detail"]
    assert [each.id for each in queue.admin.dead_letters()] == [letter]


@pytest.mark.parametrize("delay", [None, 3600])
async def test_a_ready_or_delayed_message_is_removed_and_a_leased_one_is_not(
    page: httpx.AsyncClient, queue: LeasedQueue, audit: Kept, delay: int | None
) -> None:
    message_id = queue.publish("x", delay=delay).id
    assert await post(page, "cancel", message_id=message_id) == {"cancelled": True}
    assert (audit.lines[-1]["message_id"], audit.lines[-1]["outcome"]) == (message_id, "done: messages removed: 1")
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)
    held = queue.publish("held").id
    queue.claim()
    refused = await post(page, "cancel", 409, message_id=held)
    assert refused["detail"] == "nothing was removed: this message is neither ready nor delayed any more"


@pytest.mark.parametrize("state", ["ready", "delayed", "leased"])
async def test_a_message_is_made_a_dead_letter_by_the_user_who_asked_for_it(
    page: httpx.AsyncClient, queue: LeasedQueue, audit: Kept, state: str
) -> None:
    message_id = queue.publish("x", delay=3600 if state == "delayed" else None).id
    if state == "leased":
        queue.claim(owner="worker")
    assert await post(page, "dead-letter", message_id=message_id, reason="kills") == {"dead_lettered": True}
    assert audit.lines[-1]["outcome"] == "done: messages moved to the dead letters: 1"
    (letter,) = queue.admin.dead_letters()
    assert letter.history[-1][::2] + letter.history[-1][3:] == ("moved", "changer (console)", "kills")
    again = await post(page, "dead-letter", 409, message_id=message_id)
    assert again["detail"].endswith("neither ready nor delayed nor leased any more")


@pytest.mark.parametrize(("discipline", "payload"), [("streams", {"n": 1}), ("rotation", "x"), ("reliable", "x")])
async def test_what_a_discipline_cannot_do_is_listed_with_the_reason_and_refused(
    page: httpx.AsyncClient, redis_url: str, audit: Kept, discipline: str, payload: Any
) -> None:
    with open_queue(redis_url, QUEUE, discipline) as queue:
        queue.publish(payload)
    shown = await fetch(page, "queue")
    assert "; use leased" in shown["lacks"]["expire_lease"]
    assert len((await fetch(page, "messages", target="ready"))["messages"]) == 1
    wishes = {verb.word: needed(verb) for verb in offered() if verb.name in shown["lacks"]}
    wishes["edit"] = {"message_id": "m", "payload": "{}"}
    for part, wish in wishes.items():
        refused = await post(page, part, 400, **wish)
        assert f"the discipline {discipline!r} has no " in refused["detail"]
        assert audit.lines[-1]["outcome"] == f"failed: {refused['detail']}"
