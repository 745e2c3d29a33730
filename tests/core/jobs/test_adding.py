"""Tests of adding jobs: stored bytes, returned ids, and unique jobs."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_core import ConfigurationError, JobQueue, PayloadError
from rmq_core.jobs import NewJob
from rmq_core.jobs.job import job_of
from tests.core.jobs.bench import KEYS, jobs, native, payloads
from tests.core.worlds import World


def stored(world: World) -> list[Any]:
    return [job_of(fields[b"e"]) for _, fields in world.client.xrange(KEYS.ready)]


def test_a_job_is_an_entry_of_a_stream_that_people_can_read(world: World) -> None:
    job = jobs(world).add("welcome", {"user": 42})
    ((_, fields),) = world.client.xrange(KEYS.ready)
    assert fields[b"e"].decode().endswith(f' 0 {job.id} j22 {{"rmq-name":"welcome"}}{{"user":42}}')
    (found,) = stored(world)
    assert (found.id, found.name, found.data, found.attempt) == (job.id, "welcome", {"user": 42}, 1)
    assert found.created_at is not None


@pytest.mark.parametrize("data", [None, 1, 1.5, True, "text", "ż", b"\x00\xff", {"a": [1, None]}, [1, "2"]])
def test_data_is_anything_json_has_or_bytes(world: World, data: Any) -> None:
    jobs(world).add("j", data)
    assert stored(world)[0].data == data


@pytest.mark.parametrize("data", [object(), {1: 2}, float("nan"), {"a": object()}, "\ud800"])
def test_a_value_that_json_would_change_is_refused_before_anything_is_sent(world: World, data: Any) -> None:
    with pytest.raises(PayloadError):
        jobs(world).add("j", data)
    assert world.client.keys() == []


@pytest.mark.parametrize("options", [{"attempts": 0}, {"attempts": True}, {"backoff": "x"}, {"job_id": "a b"},
                                     {"job_id": ""}, {"job_id": "{a}"}, {"delay": -1}])  # fmt: skip
def test_an_invalid_option_raises_an_error_that_names_it(world: World, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        jobs(world).add("j", **options)


def test_many_jobs_are_added_in_order_each_with_its_own_options(world: World) -> None:
    queue = jobs(world)
    added = queue.add_bulk(
        [NewJob("a", 1), {"name": "b", "data": 2, "attempts": 7}, NewJob("later", delay=60), NewJob("c", job_id="C")]
    )
    assert [job.name for job in added] == ["a", "b", "later", "c"]
    assert [(job.name, job.attempts) for job in stored(world)] == [("a", None), ("b", 7), ("c", None)]
    assert queue.stats()[:2] == (3, 1)


def test_a_bulk_that_is_refused_partway_reports_what_was_added(world: World) -> None:
    queue = jobs(world)
    with pytest.raises(PayloadError) as refused:
        queue.add_bulk([{"name": "j", "data": number} for number in range(1500)] + [{"name": "j", "data": object()}])
    assert len(refused.value.report) == 1000 == queue.stats().ready


def test_a_unique_id_is_added_once_across_processes(world: World) -> None:
    first, second = jobs(world), jobs(world)
    assert first.add_unique("welcome", 1, job_id="welcome:42").accepted
    again = second.add_unique("welcome", 2, job_id="welcome:42")
    assert (again.accepted, again.id) == (False, "welcome:42")
    with JobQueue(world.url, "q") as other:
        assert not other.add_unique("welcome", 3, job_id="welcome:42").accepted
    assert [job.data for job in stored(world)] == [1]


def test_a_unique_id_stays_taken_after_its_job_is_done(world: World) -> None:
    queue = jobs(world)
    queue.add_unique("j", 1, job_id="a")
    assert payloads(queue) == [1]
    assert not queue.add_unique("j", 2, job_id="a").accepted


def test_a_unique_id_is_taken_for_unique_ttl_from_the_end_of_the_delay(world: World) -> None:
    queue = jobs(world, unique_ttl=100)
    queue.add_unique("j", job_id="a")
    queue.add_unique("j", job_id="b", delay=1000)
    left = sorted(world.client.pttl(key) for key in world.client.keys(KEYS.prefix + b"unique:*"))
    assert 90_000 < left[0] <= 100_000
    assert 1_090_000 < left[1] <= 1_100_000


def test_more_unique_ids_are_remembered_than_the_idempotency_window_of_the_server_holds(world: World) -> None:
    queue = jobs(world)
    report = [job.accepted for job in queue.add_bulk(
        NewJob("j", job_id=f"id-{number}", unique=True) for number in [*range(10_500), 0, 10_499]
    )]  # fmt: skip
    assert report == [True] * 10_500 + [False] * 2


def test_a_custom_id_that_is_not_unique_may_be_added_twice(world: World) -> None:
    queue = jobs(world)
    assert [queue.add("j", number, job_id="a").accepted for number in range(2)] == [True, True]
    assert [job.data for job in stored(world)] == [0, 1]


def test_unique_jobs_among_others_delay_no_other_job(world: World) -> None:
    queue = jobs(world)
    added = queue.add_bulk(
        [NewJob("j", job_id="a"), NewJob("j", job_id="a", unique=True), NewJob("j", job_id="a"),
         NewJob("j", job_id="a", unique=True)]
    )  # fmt: skip
    assert [job.accepted for job in added] == [True, True, True, False]


def test_a_producer_requests_the_widest_idempotency_window_of_the_server(world: World) -> None:
    jobs(world).add("j")
    if native(world.client):
        info = world.client.execute_command("XINFO", "STREAM", KEYS.ready)
        about = info if isinstance(info, dict) else dict(zip(info[::2], info[1::2], strict=True))
        found = {str(key, "utf-8") if isinstance(key, bytes) else key: value for key, value in about.items()}
        assert (found["idmp-duration"], found["idmp-maxsize"], found["pids-tracked"]) == (600, 10_000, 1)
    else:
        assert jobs(world).add("j").accepted


def test_unread_jobs_are_never_trimmed(world: World) -> None:
    queue = jobs(world, max_events=10)
    queue.add_bulk({"name": "j", "data": number} for number in range(12_000))
    assert queue.stats().ready == 12_000
    lease = queue.claim(max_messages=12_000)
    assert (lease.count, queue.ack(lease).settled, world.client.xlen(KEYS.ready)) == (12_000, 12_000, 0)


def test_every_key_is_in_the_slot_of_the_queue(world: World) -> None:
    queue = jobs(world)
    queue.add_unique("j", job_id="a", delay=60)
    queue.add("j")
    queue.claim(lease_id="l")
    assert {key for key in world.client.keys("*") if not key.startswith(b"rmq:{q}:jobs:")} == {
        b"rmq:queues", b"rmq:queues:jobs"
    }  # fmt: skip
