from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis

from rmq_cli.doctor_checks import needed
from rmq_core import LeasedConfig, LeasedQueue, NewMessage, __version__

Rmq = Callable[..., Any]


@pytest.fixture
def user(redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> Iterator[redis.Redis]:
    """The doctor connects as the user `cli`, who has no rights yet."""
    redis_client.execute_command("ACL", "SETUSER", "cli", "reset", "resetchannels", "on", ">pw")
    monkeypatch.setenv("RMQ_USERNAME", "cli")
    monkeypatch.setenv("RMQ_PASSWORD", "pw")
    yield redis_client
    redis_client.acl_deluser("cli")


@pytest.fixture
def persistent(redis_client: redis.Redis) -> Iterator[redis.Redis]:
    redis_client.config_set("appendonly", "yes")
    yield redis_client
    redis_client.config_set("appendonly", "no")


def about(ran: Any, what: str) -> dict[str, Any]:
    """Return the first finding on a subject."""
    return next(finding for finding in ran.records[0]["findings"] if finding["what"] == what)


def test_missing_persistence_fails_the_check(rmq: Rmq) -> None:
    ran = rmq("doctor", "--json")
    assert (ran.code, ran.records[0]["ok"]) == (1, False)
    assert about(ran, "persistence")["level"] == "fail"
    assert "appendonly" in about(ran, "persistence")["advice"]
    assert "persistence: a restart loses every message" in rmq("doctor").out


def test_eviction_below_a_memory_limit_fails_the_check(rmq: Rmq, persistent: redis.Redis) -> None:
    persistent.config_set("maxmemory", "1gb")
    persistent.config_set("maxmemory-policy", "allkeys-lru")
    try:
        ran = rmq("doctor", "--json")
    finally:
        persistent.config_set("maxmemory-policy", "noeviction")
        persistent.config_set("maxmemory", "0")
    assert (ran.code, about(ran, "eviction")["level"]) == (1, "fail")


def test_the_doctor_changes_nothing(rmq: Rmq, redis_client: redis.Redis) -> None:
    rmq("doctor")
    assert redis_client.dbsize() == 0


def test_a_user_with_the_advised_rules_can_do_all_that_a_discipline_needs(
    rmq: Rmq, user: redis.Redis, discipline: str, server: Any
) -> None:
    user.execute_command("ACL", "SETUSER", "cli", "+ping", "+acl|whoami" if server.name != "6.2" else "+acl")
    for first in "+~&":  # of scripts, keys, channels
        advice = about(rmq("doctor", "orders", "-d", discipline, "--json"), "permissions")["advice"]
        for rule in advice.split()[3:] if advice.startswith("ACL SETUSER cli ") else ():
            with suppress(redis.ResponseError):  # newer servers have commands that this server lacks
                user.execute_command("ACL", "SETUSER", "cli", rule)
        if server.name == "6.2" and first == "&":
            user.execute_command("ACL", "SETUSER", "cli", needed(discipline, "orders").channels)
    found = about(rmq("doctor", "orders", "-d", discipline, "--json"), "permissions")
    assert found["level"] == ("unknown" if server.name == "6.2" else "ok"), found
    payload = ['{"n":1}', "-j"] if discipline == "streams" else ["id"]
    assert rmq("publish", "orders", *payload, "-d", discipline).code == 0
    assert rmq("consume", "orders", "-d", discipline).err == "1 acked\n"
    assert rmq("stats", "orders", "-d", discipline).code == 0


@pytest.mark.parametrize("name", ["my orders", "a*[b]?\\", "żółw"])
def test_the_advised_rules_allow_a_queue_of_any_name_and_no_other(rmq: Rmq, user: redis.Redis, name: str) -> None:
    keys = [rule for rule in needed("leased", name).rules.split() if rule[0] != "+"]
    user.execute_command("ACL", "SETUSER", "cli", "+@all", *keys)
    assert rmq("publish", name, "x").code == 0
    assert rmq("publish", f"{name}2", "x").code == rmq("publish", "aXb2", "x").code == 1


def test_each_command_that_a_user_lacks_is_named(rmq: Rmq, user: redis.Redis, discipline: str, server: Any) -> None:
    keys = [rule for rule in needed(discipline, "orders").rules.split() if rule[0] in "~&"]
    user.execute_command("ACL", "SETUSER", "cli", "+ping", "+eval", *keys)
    found = about(rmq("doctor", "orders", "-d", discipline, "--json"), "permissions")
    if server.name == "6.2":
        assert found["level"] == "unknown"
        return
    known = {name.decode().upper() for name in user.command_list()}
    lacking = {name for name in needed(discipline, "orders").commands if name.partition("|")[0] in known}
    named = {rule[1:].upper() for rule in found["advice"].split() if rule[0] == "+"}
    assert (found["level"], named) == ("fail", lacking - {"PING", "EVAL"})
    assert f"lacks {len(named)} commands" in found["found"]


def test_the_doctor_reports_the_connected_versions_and_the_formats_of_all_queues(
    rmq: Rmq, redis_client: redis.Redis, server_url: str
) -> None:
    with LeasedQueue(server_url, "orders") as queue:
        queue.publish("x")
        ran = rmq("doctor", "--json")
    assert about(ran, "format") == {"level": "ok", "what": "format", "found": "formats 1, 2 and 3 (1)", "advice": ""}
    clients = about(ran, "clients")
    reports = b"lib-name=" in redis_client.execute_command("CLIENT", "LIST")  # from Redis 7.2 on
    assert clients["found"].startswith(f"RMQ {__version__} (") == reports
    assert clients["level"] == ("ok" if reports else "unknown")


def test_a_queue_in_a_later_format_fails_the_check(rmq: Rmq, redis_client: redis.Redis, server_url: str) -> None:
    with LeasedQueue(server_url, "orders") as queue:
        queue.publish("x")
    redis_client.set("rmq:{orders}:format", "4 0.9.0")
    ran = rmq("doctor", "--json")
    finding = about(ran, "format")
    assert (ran.code, finding["level"], finding["found"]) == (1, "fail", "orders is stored in format 4")
    assert finding["advice"] == "this version reads formats 1, 2 and 3: install RMQ 0.9.0 or later"
    assert about(rmq("doctor", "orders", "--json"), "format") == finding


def test_a_named_queue_of_a_later_format_is_reported_and_not_opened(rmq: Rmq, redis_client: redis.Redis) -> None:
    redis_client.sadd("rmq:queues", "orders")
    redis_client.set("rmq:{orders}:ready", "rmq format 4")
    redis_client.set("rmq:{orders}:format", "4 0.9.0")
    ran = rmq("doctor", "orders", "--json")
    assert (ran.code, ran.err, about(ran, "format")["level"]) == (1, "", "fail")
    assert "RMQ 0.9.0 or later" in about(ran, "format")["advice"]


def test_a_program_whose_settings_are_not_those_of_the_queue_is_named(
    rmq: Rmq, persistent: redis.Redis, server_url: str
) -> None:
    with LeasedQueue(server_url, "q", LeasedConfig(max_deliveries=3)) as queue:
        queue.publish("x")
        assert about(rmq("doctor", "q", "--json"), "settings")["found"] == "q stores nothing"
        rmq("configure", "q", "max_deliveries=5")
    with LeasedQueue(server_url, "q", LeasedConfig(max_deliveries=3)) as queue:
        queue.publish("x")
    ran = rmq("doctor", "q", "--json")
    assert (ran.code, about(ran, "settings")["level"]) == (0, "warn")
    assert "passed max_deliveries=3 at " in about(ran, "settings")["found"]
    rmq("configure", "q", "max_deliveries=3")
    assert about(rmq("doctor", "q", "--json"), "settings")["found"] == "q stores max_deliveries=3"
    persistent.rpush("rmq:{q}:settings2", "x")
    persistent.rename("rmq:{q}:settings2", "rmq:{q}:settings")
    assert "another type" in str(rmq("doctor", "q", "--json").records[0]["findings"])


def test_the_shards_of_a_queue_are_checked(rmq: Rmq, persistent: redis.Redis, server_url: str) -> None:
    with LeasedQueue(server_url, "q") as queue:
        queue.publish("x")
        assert all(each["what"] != "shards" for each in rmq("doctor", "q", "--json").records[0]["findings"])
        queue.admin.configure(shards=3)
        found = about(rmq("doctor", "q", "--json"), "shards")
        assert (found["level"], found["found"]) == ("ok", "3 of 3 answer and know the map")
        names = [each.name for each in queue.admin.shards()]
        persistent.set(f"rmq:shard:{{q~{names[1]}}}:epoch", 7)
        ran = rmq("doctor", "q", "--json")
        told = f"shard {names[1]} knows change 7 of the shards, and the settings 1"
        assert (ran.code, about(ran, "shards")["found"]) == (1, told)
        assert about(ran, "shards")["advice"] == "publishers are refused there: rmq configure q shards=3"
        persistent.set(f"rmq:shard:{{q~{names[1]}}}:epoch", 1)
        persistent.set(f"rmq:shard:{{q~{names[2]}}}:leases", "x")
        ran = rmq("doctor", "q", "--json")
        assert ran.code == 1
        assert about(ran, "shards")["found"].startswith(f"shard {names[2]} (slot ")
        persistent.delete(f"rmq:shard:{{q~{names[2]}}}:leases")
        queue.publish_many(NewMessage(str(number), dedup_key=str(number)) for number in range(30))
        rmq("configure", "q", "shards=2")
        assert "only have their messages claimed: " in about(rmq("doctor", "q", "--json"), "shards")["found"]
        former = next(each for each in queue.admin.shards() if each.draining)
        while lease := queue.claim(max_messages=9):
            queue.ack(lease)
        assert about(rmq("doctor", "q", "--json"), "shards")["found"].startswith(f"{former.name} are empty")
        persistent.lpush(f"rmq:shard:{{q~{former.name}}}:dead", "x", "x")
        found = about(rmq("doctor", "q", "--json"), "shards")
        assert (found["level"], found["found"]) == (
            "warn", f"{former.name} get no more messages, and stay for 2 dead letters",
        )  # fmt: skip
        settings = persistent.get("rmq:{q}:settings") or b""
        persistent.set("rmq:{q}:settings", settings.replace(b" live ", b" changing "))
        found = about(rmq("doctor", "q", "--json"), "shards")
        assert (found["level"], found["found"]) == ("warn", "a change of the shards has not ended")


def test_the_keys_of_shards_are_advised_for_a_queue_that_has_some(
    rmq: Rmq, persistent: redis.Redis, user: redis.Redis, server_url: str, server: Any
) -> None:
    rules = needed("leased", "q").rules.split()
    for rule in rules:
        with suppress(redis.ResponseError):
            user.execute_command("ACL", "SETUSER", "cli", rule)
    with LeasedQueue(persistent, "q") as queue:
        queue.admin.configure(shards=2)
    ran = rmq("doctor", "q", "--json")
    found = about(ran, "permissions")
    if server.name == "6.2":
        assert found["level"] == "unknown"
        return
    assert (ran.code, found["found"]) == (1, "user ? may not use the keys ~rmq:shard:{q~*}:*")
    assert needed("leased", "q", in_shards=True).rules.split() == [
        *rules[:-1], "~rmq:shard:{q~*}:*", rules[-1], "&rmq:shard:{q~*}:*"
    ]  # fmt: skip
