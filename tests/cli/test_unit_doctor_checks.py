from __future__ import annotations

from typing import Any

import pytest

from rmq_cli.doctor_checks import Allowed, Facts, Finding, Level, examine

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


@pytest.mark.parametrize(("version", "expected"), [("6.0.16", Level.FAIL), ("6.2.0", Level.OK), ("10.0.0", Level.OK)])
def test_redis_is_supported_from_6_2_on(version: str, expected: Level) -> None:
    assert level("version", redis_version=version) == expected


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


def test_memory_without_a_limit_is_a_risk() -> None:
    assert level("maxmemory", maxmemory=0) == Level.WARN


@pytest.mark.parametrize("allowed", [Allowed(), Allowed(commands={"GET": "yes", "ZADD": "unsure"}, channels=True)])
def test_what_a_server_does_not_say_is_unknown_and_not_good(allowed: Allowed) -> None:
    assert level("permissions", facts={"allowed": allowed}) == Level.UNKNOWN


def test_without_info_the_other_checks_are_still_reported() -> None:
    findings = examine(Facts({}, skew_s=0.0, user="u", allowed=ALL))
    assert [finding.what for finding in findings] == ["permissions", "server", "clock", "clients"]
