from __future__ import annotations

import json

import pytest

from rmq_core import ConfigurationError, LeasedConfig, RedisSettings
from rmq_core.orchestrate import Handover

NAMES = {"queue": "work", "lease_id": "dag/run/task/-1", "owner": "try-1"}


def environment(**changes: str) -> dict[str, str]:
    return {"RMQ_HANDOVER": json.dumps(NAMES), "RMQ_URL": "redis://cache:6380/2", **changes}


@pytest.mark.parametrize("lease", [20, 0.5, None])
def test_a_driver_extends_the_lease_as_long_as_its_submitter_would(lease: float | None) -> None:
    lease_ms = LeasedConfig(lease=lease).lease_ms
    given = Handover(RedisSettings.from_url("redis://cache"), **NAMES, lease_ms=lease_ms).environment()
    assert Handover.from_environment(given).config == LeasedConfig(lease=lease)


def test_a_driver_does_not_use_inherited_credentials_of_another_server() -> None:
    given = Handover(RedisSettings.from_url("redis://spark@cache"), **NAMES).environment()
    settings = Handover.from_environment({"RMQ_PASSWORD": "of another", **given}).settings
    assert (settings.username, settings.password) == ("spark", None)


@pytest.mark.parametrize("missing", ["RMQ_HANDOVER", "RMQ_URL"])
def test_a_missing_variable_is_named(missing: str) -> None:
    incomplete = environment()
    del incomplete[missing]
    with pytest.raises(ConfigurationError, match=missing):
        Handover.from_environment(incomplete)


@pytest.mark.parametrize("text", ["", "lease", "[]", "7", '{"queue": "work"}'])
def test_an_invalid_handover_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="RMQ_HANDOVER"):
        Handover.from_environment(environment(RMQ_HANDOVER=text))
