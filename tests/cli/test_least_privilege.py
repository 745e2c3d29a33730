"""Every verb of every discipline works for a Redis user with exactly the documented permissions, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from operator import attrgetter
from typing import Any

import pytest
import redis

import rmq_core
from rmq_cli.doctor_checks import needed
from rmq_core.errors import ScriptFailed
from rmq_core.protocol import DISCIPLINES
from tests.core.conformance.catalogue import PROMISES
from tests.core.conformance.promises import Promise
from tests.core.conformance.stages import Place, Stage, SyncStage
from tests.core.conformance.subject import Subject
from tests.core.tenants import USER, denied, grant
from tests.core.worlds import World


class TenantStage(SyncStage):
    """Queues that the user opens; `plain` is another user's client, who may do everything."""

    def __init__(self, place: Place, tenant: str) -> None:
        super().__init__(place)
        self._client = rmq_core.RedisSettings.from_url(tenant).client()

    def open(self, discipline: str, name: str, config: Any) -> Any:
        return rmq_core.open_queue(self._client, name, discipline, config)

    def close(self) -> None:
        self._client.close()
        super().close()


@pytest.fixture
def stage(tenant: str, server: Any) -> Iterator[Stage]:
    made = TenantStage(Place(server.name, server.url, ""), tenant)
    yield made
    made.close()


@pytest.mark.parametrize("discipline", DISCIPLINES)
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.sentence.replace(" ", "-"))
def test_each_promise_is_kept_for_a_user_with_exactly_the_documented_permissions(
    promise: Promise, discipline: str, stage: Stage, redis_client: redis.Redis
) -> None:
    subject = Subject(stage, discipline)
    grant(redis_client, discipline, subject.name, f"{subject.name}-other")
    try:
        promise.check(subject)
    finally:
        subject.close()
    assert denied(redis_client) == []


@pytest.mark.parametrize("call", ["publish", "publish_many", "claim", "admin.pause"])
@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_a_call_that_redis_refuses_leaves_no_name_in_the_registry(
    call: str, discipline: str, world: World, tenant: str
) -> None:
    grant(world.client, discipline, "orders")
    theirs = world.open(discipline, "theirs", settings=tenant)
    if call == "admin.pause" and not hasattr(DISCIPLINES[discipline].load().admin, "pause"):
        return  # only some disciplines can pause
    payload = {"n": 1} if discipline == "streams" else "m1"
    given = {"publish": [payload], "publish_many": [[payload]]}.get(call, [])
    for _ in range(2):
        with pytest.raises(ScriptFailed):
            attrgetter(call)(theirs)(*given)
        assert world.client.keys() == []
    world.open(discipline, "orders", settings=tenant).publish(payload)
    with pytest.raises(ScriptFailed):
        attrgetter(call)(theirs)(*given)
    assert world.client.smembers("rmq:queues") == {b"orders"}


@pytest.mark.parametrize("discipline", [name for name in DISCIPLINES if name != "leased"])
def test_a_user_without_the_registry_of_a_discipline_leaves_no_name_in_the_one_of_all(
    discipline: str, world: World, tenant: str
) -> None:
    rules = [rule for rule in needed(discipline, "orders").rules.split() if rule != "~rmq:queues:*"]
    for rule in ["resetkeys", *rules]:
        with suppress(redis.ResponseError):
            world.client.execute_command("ACL", "SETUSER", USER, rule)
    with pytest.raises(ScriptFailed):
        world.open(discipline, "orders", settings=tenant).publish({"n": 1} if discipline == "streams" else "m1")
    assert world.client.smembers("rmq:queues") == set()


def test_a_name_that_another_client_registered_survives_a_refused_call(world: World, tenant: str) -> None:
    world.queue("theirs").publish("x")
    with pytest.raises(ScriptFailed):
        world.queue("theirs", settings=tenant).publish("x")
    assert world.client.smembers("rmq:queues") == {b"theirs"}


def test_messages_that_were_stored_before_a_refusal_keep_their_queue_in_the_registry(world: World) -> None:
    queue = world.queue("orders", rmq_core.LeasedConfig(max_ready=1_000))
    with pytest.raises(rmq_core.QueueFull):
        queue.publish_many(map(str, range(9_000)))
    assert world.client.smembers("rmq:queues") == {b"orders"}


def test_what_only_leased_queues_do_works_with_exactly_the_documented_permissions(world: World, tenant: str) -> None:
    grant(world.client, "leased", "orders")
    config = rmq_core.LeasedConfig(durability=rmq_core.Durability(replicas=1, timeout=0.001), journal=100)
    queue = world.queue("orders", config, settings=tenant)
    with pytest.raises(rmq_core.errors.NotDurable):
        queue.publish("a")
    staged = queue.stage(["b", "c"])
    with suppress(rmq_core.errors.NotDurable):
        queue.publish_staged([staged])
    lease = queue.claim(lease_id="job", max_messages=2)
    lease = queue.adopt("job")
    with suppress(rmq_core.errors.NotDurable):
        queue.ack(lease, [next(iter(queue.messages(lease)))])
    queue.admin.remembered("key")
    queue.lease_info("job")
    assert denied(world.client) == []


def test_a_queue_in_shards_works_with_exactly_the_documented_permissions(world: World, tenant: str) -> None:
    grant(world.client, "leased", "orders", in_shards=True)
    queue = world.queue("orders", settings=tenant)
    queue.admin.configure(shards=3)
    queue.publish_many(map(str, range(9)))
    queue.publish("keyed", dedup_key="key")
    queue.ack(queue.claim(lease_id="job", max_messages=9))
    queue.nack(queue.claim(), delay=0.001)
    queue.ack(queue.claim(wait=5))
    assert queue.claim(wait=0.01) is None
    assert [each.error for each in queue.admin.shards()] == [None] * 3
    queue.admin.configure(shards=2)
    assert denied(world.client) == []


def test_publications_are_counted_with_exactly_the_documented_permissions(world: World, tenant: str) -> None:
    grant(world.client, "leased", "orders")
    queue = world.queue("orders", settings=tenant)
    queue.admin.configure(groups="fair")
    for name in ("one", "two"):
        queue.publish_many(["a", "b"], publication=name)
    lease = queue.claim()
    queue.ack(lease, [lease.message])
    assert not queue.publication("one", wait=0.001).done
    assert len(queue.admin.publications()) == 2
    queue.admin.purge("ready")
    queue.admin.configure(reset="groups")
    assert denied(world.client) == []
