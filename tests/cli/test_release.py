from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import redis

from rmq_cli import doctor
from rmq_core import LeasedQueue
from rmq_core.observe.history import actor

Rmq = Callable[..., Any]


@pytest.fixture
def queue(rmq: Rmq, server_url: str) -> Any:
    del rmq  # which empties the database
    with LeasedQueue(server_url, "orders") as opened:
        yield opened


def test_a_lease_is_released_by_its_id_and_its_holder_is_fenced_off(rmq: Rmq, queue: LeasedQueue) -> None:
    queue.publish_many([*"abc"])
    held = queue.claim(max_messages=2, lease_id="dag/run/task", owner="try 1")
    assert held is not None
    ran = rmq("release", "orders", "dag/run/task")
    assert (ran.code, ran.out) == (0, "released 2 messages of orders\n")
    assert queue.lease_info("dag/run/task") is None
    assert [message.deliveries for message in queue.admin.peek(3)] == [0, 0, 0]


def test_a_lease_that_a_retry_has_taken_over_is_left_to_it(rmq: Rmq, queue: LeasedQueue) -> None:
    queue.publish("x")
    queue.claim(lease_id="job", owner="try 1")
    queue.claim(lease_id="job", owner="try 2")
    ran = rmq("release", "orders", "job", "--owner", "try 1")
    assert (ran.code, "it is owned by 'try 2'" in ran.err) == (1, True)
    again = rmq("release", "orders", "job", "--owner", "try 2", "--json")
    assert again.records == [{"queue": "orders", "lease": "job", "released": 1}]


def test_all_leases_of_an_owner_end_with_one_command(rmq: Rmq, queue: LeasedQueue) -> None:
    queue.publish_many([*"abcdef"])
    for owner in ("hung", "hung", "other"):
        queue.claim(max_messages=2, owner=owner)
    asked = rmq("expire-leases", "orders", "hung")  # nobody can confirm
    assert asked.code != 0
    assert "'hung', which holds 4 messages in 2 leases of orders" in asked.err
    ran = rmq("expire-leases", "orders", "hung", "--reason", "it hung", "-y", "--json")
    assert ran.records == [{"queue": "orders", "owner": "hung", "expired": 4, "dead": 0}]
    assert [lease.owner for lease in queue.admin.leases()] == ["other"]
    ran = rmq("release-leases", "orders", "other", "-y")
    assert (ran.code, ran.out) == (0, "released 2 messages of orders that other held\n")


def test_leases_and_stats_show_what_is_isolated(rmq: Rmq, queue: LeasedQueue) -> None:
    queue.publish_many([*"abcd"])
    for _ in range(2):
        lease = queue.claim(max_messages=4)
        assert lease is not None
        queue.nack(lease)
    assert rmq("stats", "orders", "--json").records[0]["isolated"] == 4
    asked = rmq("purge", "orders", "--state", "ready", "--state", "isolated").err
    assert "Delete 4 ready or isolated messages of orders" in asked
    queue.claim(max_messages=4, lease_id="job")
    (lease_record,) = rmq("leases", "orders", "--json").records
    assert lease_record["isolation"] == {"failures": 2, "most": 2}
    assert "failed together 2 times" in rmq("leases", "orders").out


def ended(owners: Collection[str]) -> Mapping[str, tuple[str, bool]]:
    known = {"gone": ("its run was deleted", False), "crashed": ("try 1 failed", True)}
    return {owner: known[owner] for owner in owners if owner in known}


def broken(owners: Collection[str]) -> Mapping[str, tuple[str, bool]]:
    raise RuntimeError(f"no database for {len(owners)}")


def with_orchestrators(monkeypatch: pytest.MonkeyPatch, **functions: str) -> None:
    """Make these packages appear installed."""
    points = [EntryPoint(name, f"{__name__}:{value}", doctor.GROUP) for name, value in functions.items()]
    monkeypatch.setattr(doctor, "entry_points", lambda group: [point for point in points if point.group == group])


def about_leases(ran: Any) -> list[tuple[str, str, str]]:
    findings = ran.records[0]["findings"]
    return [(one["level"], one["found"], one["advice"]) for one in findings if one["what"] == "leases"]


def test_the_doctor_names_leases_of_ended_holders_and_the_command_that_releases_them(
    rmq: Rmq, queue: LeasedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_orchestrators(monkeypatch, airflow="ended")
    queue.publish_many([*"abc"])
    queue.claim(max_messages=2, lease_id="job", owner="gone")
    queue.claim(lease_id="other", owner="alive")
    (found,) = about_leases(rmq("doctor", "orders", "--json"))
    way_out = "rmq release orders 'job' --owner 'gone'"
    assert found == ("warn", "'job' holds 2 messages: its run was deleted", way_out)
    assert rmq("release", "orders", "job", "--owner", "gone").code == 0
    assert about_leases(rmq("doctor", "orders", "--json")) == [
        ("ok", "1 lease, none whose holder is known to have ended", "")
    ]


def test_the_doctor_advises_to_expire_a_lease_whose_holder_failed(
    rmq: Rmq, queue: LeasedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_orchestrators(monkeypatch, airflow="ended")
    queue.publish("x")
    queue.claim(lease_id="job", owner="crashed")
    ((_, found, advice),) = about_leases(rmq("doctor", "orders", "--json"))
    assert (found, advice) == ("'job' holds 1 message: try 1 failed", "rmq expire orders 'job' --owner 'crashed'")


def test_the_doctor_reports_whether_a_queue_is_paused(rmq: Rmq, queue: LeasedQueue) -> None:
    queue.publish("x")

    def pause() -> list[tuple[str, str]]:
        findings = rmq("doctor", "orders", "--json").records[0]["findings"]
        return [(one["level"], one["found"]) for one in findings if one["what"] == "pause"]

    assert pause() == [("ok", "orders hands out messages")]
    queue.admin.pause()
    assert pause() == [("warn", f"orders is paused by {actor()}")]
    queue.admin.resume()
    rmq("pause", "orders", "--reason", "provider is down,\tINC-31")
    assert pause() == [("warn", f"orders is paused by {actor()}: provider is down, INC-31")]
    queue.admin.resume()
    queue.admin.configure(pause_after_dead="1 in 1h", max_deliveries=1)
    queue.nack(queue.claim())
    told = "orders is paused by the breaker: 1 dead letter within 1 hour"
    assert pause() == [("warn", told)]
    assert told in rmq("stats", "orders").err
    assert rmq("stats", "orders", "--json").records[0]["paused"] is True


def test_who_may_not_read_the_history_sees_that_a_queue_is_paused(
    rmq: Rmq, queue: LeasedQueue, redis_client: redis.Redis
) -> None:
    queue.publish("x")
    queue.admin.pause()
    redis_client.delete("rmq:{orders}:history")
    redis_client.set("rmq:{orders}:history", "not a hash")
    assert "orders is paused\n" in rmq("stats", "orders").err
    assert "pause: claims get nothing until `rmq resume QUEUE`" in rmq("doctor", "orders").out


def test_an_orchestrator_that_cannot_be_queried_hides_nothing_else(
    rmq: Rmq, queue: LeasedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_orchestrators(monkeypatch, dagster="broken", airflow="ended")
    queue.publish("x")
    queue.claim(lease_id="job", owner="gone")
    levels = [level for level, _, _ in about_leases(rmq("doctor", "orders", "--json"))]
    assert levels == ["unknown", "warn"]
    assert "RuntimeError: no database for 1" in rmq("doctor", "orders").out
