"""A lease reaches its driver as a parameter, as an extra of Dagster Pipes or in the environment: one JSON for all."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from rmq_core import ConfigurationError, RedisSettings
from rmq_core.orchestrate import Handover

CANARY = "canary-8d1f"
SETTINGS = RedisSettings.from_url(f"redis://spark:{CANARY}@cache:6380/2")
SECRETS = {"password": "env:REDIS_PASSWORD"}
HANDOVER = Handover(SETTINGS, "work", "dag/run/task/-1", "try-1", 300_000, 600_000)


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_PASSWORD", CANARY)
    monkeypatch.delenv("RMQ_HANDOVER", raising=False)


def start(monkeypatch: pytest.MonkeyPatch, *argv: str) -> None:
    monkeypatch.setattr(sys, "argv", ["job.py", *argv])


def open_pipes(monkeypatch: pytest.MonkeyPatch, extras: dict[str, Any]) -> None:
    context = SimpleNamespace(get=lambda: SimpleNamespace(extras=extras), is_initialized=lambda: True)
    monkeypatch.setitem(sys.modules, "dagster_pipes", SimpleNamespace(PipesContext=context))


def enter(monkeypatch: pytest.MonkeyPatch, handover: Handover) -> None:
    for name, value in handover.environment().items():
        monkeypatch.setenv(name, value)


def test_a_connection_without_credentials_needs_no_reference() -> None:
    handover = Handover(RedisSettings.from_url("redis://cache"), "work", "l", "o", "inf")
    assert Handover.from_parameters(handover.parameters()) == handover


@pytest.mark.parametrize("name", ["a}}b{{c", "{{{}}}", '"}}', "\\{{"])
def test_parameters_have_no_braces_that_yarn_databricks_or_jinja_replace(name: str) -> None:
    handover = Handover(RedisSettings.from_url("redis://cache"), name, "l{{", "o}}")
    _, text = handover.parameters()
    assert "{{" not in text
    assert "}}" not in text
    assert Handover.from_parameters(["--rmq-handover", text]) == handover


@pytest.mark.parametrize(
    ("secrets", "said"),
    [({}, "'password': 'env:"), ({"password": CANARY}, "reference"), ({"pass": "env:X"}, "'pass' is no credential")],
)
def test_a_credential_without_a_reference_is_refused_and_not_shown(secrets: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as error:
        HANDOVER.parameters(secrets)
    assert CANARY not in str(error.value)


def test_a_password_that_looks_like_a_reference_is_refused_and_not_shown() -> None:
    settings = RedisSettings.from_url("redis://cache", password="env:REDIS")
    with pytest.raises(ConfigurationError, match="reference") as error:
        Handover(settings, "work", "l", "o").parameters({"password": "env:REDIS"})
    assert "env:REDIS'" not in str(error.value)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "--rmq-handover is missing"),
        (["--rmq-handover"], "--rmq-handover is missing"),
        (["--rmq-handover", "lease"], "JSON object"),
        (["--rmq-handover", "[]"], "JSON object"),
        (["--rmq-handover={}"], "queue, lease_id, owner"),
        (["--rmq-handover={}", "--rmq-handover={}"], "2 times"),
        (["--rmq-handover", '{"queue": "q", "lease_id": "l", "owner": "o"}'], "has no `url`"),
    ],
)
def test_parameters_that_cannot_be_read_are_refused(argv: list[str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Handover.from_parameters(argv)


@pytest.mark.parametrize("extras", [{}, {"rmq_handover": "text"}])
def test_extras_that_cannot_be_read_are_refused(extras: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="rmq_handover"):
        Handover.from_extras(extras)


def test_a_handover_is_found_in_each_place(monkeypatch: pytest.MonkeyPatch) -> None:
    start(monkeypatch, *HANDOVER.parameters(SECRETS))
    assert Handover.find() == HANDOVER
    start(monkeypatch)
    open_pipes(monkeypatch, HANDOVER.extras(SECRETS))
    assert Handover.find() == HANDOVER
    open_pipes(monkeypatch, {})
    enter(monkeypatch, HANDOVER)
    assert Handover.find() == HANDOVER


def test_the_first_of_several_places_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    enter(monkeypatch, HANDOVER)
    open_pipes(monkeypatch, HANDOVER.extras({"password": "vault:extra"}))
    start(monkeypatch)
    assert Handover.find(resolve=str.upper).settings.password == "VAULT:EXTRA"
    start(monkeypatch, *HANDOVER.parameters({"password": "vault:parameter"}))
    assert Handover.find(resolve=str.upper).settings.password == "VAULT:PARAMETER"


def test_places_that_disagree_are_an_error_that_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    start(monkeypatch, *HANDOVER.parameters(SECRETS))
    enter(monkeypatch, Handover(SETTINGS, "work", "another", "try-1", 300_000))
    with pytest.raises(ConfigurationError, match=r"--rmq-handover and RMQ_HANDOVER .* 'another'"):
        Handover.find()


def test_without_a_handover_each_place_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    start(monkeypatch)
    with pytest.raises(ConfigurationError, match=r"--rmq-handover.*rmq_handover.*RMQ_HANDOVER"):
        Handover.find()
