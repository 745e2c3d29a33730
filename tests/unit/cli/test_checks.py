from __future__ import annotations

from typing import Any

import pytest

from rmq_core.cli.checks import Finding, Level, examine
from rmq_core.cli.facts import Allowed, Facts
from rmq_core.cli.requirements import needed

GOOD = {
    "redis_version": "7.2.4",
    "redis_mode": "standalone",
    "role": "master",
    "connected_slaves": 1,
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
    "rdb_last_bgsave_status": "ok",
    "maxmemory": 1000,
    "used_memory": 100,
    "maxmemory_policy": "noeviction",
}


ALL = Allowed(commands={}, channels=True)
ORDERS = needed("leased", "orders")


def found(what: str, *, facts: dict[str, Any] | None = None, **info: Any) -> list[Finding]:
    """Return the findings about one subject; `info` replaces the reply of a well configured server."""
    given = {
        "save": "3600 1",
        "appendfsync": "everysec",
        "skew_s": 0.0,
        "user": "default",
        "allowed": ALL,
        **(facts or {}),
    }
    return [finding for finding in examine(Facts({**GOOD, **info}, **given)) if finding.what == what]


def level(what: str, *, facts: dict[str, Any] | None = None, **info: Any) -> Level:
    return max((finding.level for finding in found(what, facts=facts, **info)), key=list(Level).index)


def test_a_well_kept_server_gets_no_advice() -> None:
    findings = examine(
        Facts(GOOD, "3600 1", "everysec", 0.0, "default", allowed=ALL, clients=("redis-py(rmq_v0.2.0)",))
    )
    assert {finding.level for finding in findings} == {Level.OK}
    assert not any(finding.advice for finding in findings)


@pytest.mark.parametrize(("version", "expected"), [("6.0.16", Level.FAIL), ("6.2.0", Level.OK), ("10.0.0", Level.OK)])
def test_redis_is_supported_from_6_2_on(version: str, expected: Level) -> None:
    assert level("version", redis_version=version) == expected


def test_valkey_is_called_by_its_own_name_and_version() -> None:
    (finding,) = found("version", valkey_version="9.0.1")
    assert finding.found.startswith("Valkey 9.0.1")


def test_a_replica_is_reported_as_unsuitable() -> None:
    assert level("role", role="slave") == Level.FAIL


def test_no_persistence_and_no_replica_loses_everything() -> None:
    assert level("persistence", facts={"save": ""}, aof_enabled=0, connected_slaves=0) == Level.FAIL


def test_no_persistence_with_replicas_is_a_risk() -> None:
    assert level("persistence", facts={"save": ""}, aof_enabled=0, connected_slaves=1) == Level.WARN


@pytest.mark.parametrize("save", ["3600 1", None])
def test_snapshots_alone_are_a_risk_even_where_their_settings_are_unreadable(save: str | None) -> None:
    assert level("persistence", facts={"save": save}, aof_enabled=0) == Level.WARN


def test_an_append_only_file_that_is_never_synced_is_a_risk() -> None:
    assert level("persistence", facts={"appendfsync": "no"}) == Level.WARN


@pytest.mark.parametrize("field", ["rdb_last_bgsave_status", "aof_last_write_status"])
def test_a_failing_disk_must_be_repaired(field: str) -> None:
    assert (
        max(finding.level for finding in found("persistence", **{field: "err"}) if field in finding.found) == Level.FAIL
    )


@pytest.mark.parametrize(("used", "expected"), [(100, Level.OK), (850, Level.WARN), (1000, Level.FAIL)])
def test_memory_use_close_to_its_limit_is_reported(used: int, expected: Level) -> None:
    assert level("maxmemory", used_memory=used) == expected


def test_memory_without_a_limit_is_a_risk() -> None:
    assert level("maxmemory", maxmemory=0) == Level.WARN


@pytest.mark.parametrize(
    ("policy", "maxmemory", "expected"),
    [
        ("noeviction", 1000, Level.OK),
        ("volatile-lru", 1000, Level.WARN),
        ("allkeys-lru", 0, Level.WARN),
        ("allkeys-lru", 1000, Level.FAIL),
    ],
)
def test_a_server_that_evicts_keys_deletes_queues(policy: str, maxmemory: int, expected: Level) -> None:
    assert level("eviction", maxmemory_policy=policy, maxmemory=maxmemory) == expected


@pytest.mark.parametrize(("skew_s", "expected"), [(0.4, Level.OK), (-90.0, Level.WARN), (None, Level.UNKNOWN)])
def test_clocks_that_differ_by_more_than_a_second_are_reported(skew_s: float | None, expected: Level) -> None:
    assert level("clock", facts={"skew_s": skew_s}) == expected


def test_missing_permissions_are_named_as_the_acl_rule_that_grants_them() -> None:
    commands = {"ZADD": "no", "GET": "yes", "XACKDEL": "absent", "XGROUP|CREATE": "no"}
    lacking = Allowed(commands=commands, keys=("~rmq:queues",), channels=True)
    (finding,) = found("permissions", facts={"user": "etl", "allowed": lacking, "needs": ORDERS})
    assert finding.level == Level.FAIL
    assert finding.advice == "ACL SETUSER etl +zadd +xgroup|create ~rmq:queues"


def test_a_user_without_scripts_can_do_nothing_and_needs_all() -> None:
    (finding,) = found("permissions", facts={"user": "etl", "allowed": Allowed(scripts="NOPERM"), "needs": ORDERS})
    assert (finding.level, finding.advice) == (Level.FAIL, f"ACL SETUSER etl {ORDERS.rules.partition(' ~')[0]}")


@pytest.mark.parametrize("allowed", [Allowed(), Allowed(commands={"GET": "yes", "ZADD": "unsure"}, channels=True)])
def test_what_a_server_does_not_say_is_unknown_and_not_good(allowed: Allowed) -> None:
    assert level("permissions", facts={"allowed": allowed}) == Level.UNKNOWN


def test_without_info_the_other_checks_are_still_reported() -> None:
    findings = examine(Facts({}, skew_s=0.0, user="u", allowed=ALL))
    assert [finding.what for finding in findings] == ["permissions", "server", "clock", "clients"]


def test_the_versions_of_connected_clients_are_counted() -> None:
    names = ("redis-py(rmq_v0.2.0)", "redis-py(celery_v5;rmq_v0.2.0)", "redis-py", "")
    (finding,) = found("clients", facts={"clients": names})
    assert (finding.level, finding.found) == (Level.OK, "RMQ 0.2.0 (2), others (2)")


def test_several_connected_versions_are_a_warning() -> None:
    (finding,) = found("clients", facts={"clients": ("redis-py(rmq_v0.2.0)", "redis-py(rmq_v0.3.1)")})
    assert (finding.level, finding.advice[:32]) == (Level.WARN, "only neighbouring minor versions")


def test_a_server_that_does_not_report_clients_leaves_their_versions_unknown() -> None:
    assert level("clients") == Level.UNKNOWN
