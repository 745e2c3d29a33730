"""A reference leads to its secret, and nothing but the secret's reader ever sees the value."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rmq_core import ConfigurationError
from rmq_core.orchestrate import resolve_secret

VALUE = "canary-8d1f"


class ScriptedService:
    """A store of secrets: `given` is what it returns, or the exception that it raises."""

    def __init__(self, given: Any) -> None:
        self.given, self.asked = given, []

    def get(self, scope: str, key: str) -> Any:
        return self._answer(scope, key)

    def get_secret_value(self, **names: str) -> Any:
        return {"SecretString": self._answer(names["SecretId"])}

    def _answer(self, *asked: str) -> Any:
        self.asked.append(asked)
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


def install(monkeypatch: pytest.MonkeyPatch, service: ScriptedService) -> None:
    """Stand in for boto3, and for the module with which Databricks gives programs its `dbutils`."""
    boto3: Any = ModuleType("boto3")
    boto3.client = {"secretsmanager": service}.__getitem__
    runtime: Any = ModuleType("databricks.sdk.runtime")
    runtime.dbutils = SimpleNamespace(secrets=service)
    modules = {"boto3": boto3, "databricks": ModuleType("databricks"), "databricks.sdk": ModuleType("databricks.sdk")}
    for name, module in (modules | {"databricks.sdk.runtime": runtime}).items():
        monkeypatch.setitem(sys.modules, name, module)


def refused(reference: str) -> str:
    """Return the whole traceback of the refusal, with every value that an exception in it shows."""
    with pytest.raises(ConfigurationError) as error:
        resolve_secret(reference)
    return "".join(traceback.format_exception(error.value))


def test_a_variable_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_PASSWORD", VALUE)
    assert resolve_secret("env:REDIS_PASSWORD") == VALUE


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_file_is_read_without_its_last_line_break(end: str, tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(f" {VALUE} {end}".encode())
    assert resolve_secret(f"file:{tmp_path}/password") == f" {VALUE} "


@pytest.mark.parametrize(
    ("reference", "given", "asked"),
    [
        ("databricks:team/redis/password", VALUE, ("team", "redis/password")),
        ("aws:prod/redis", VALUE, ("prod/redis",)),
        ("aws:arn:aws:secretsmanager:eu-west-1:1:secret:redis#password", json.dumps({"password": VALUE}), None),
    ],
)
def test_a_service_is_asked_for_the_secret_that_is_named(
    reference: str, given: str, asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = ScriptedService(given)
    install(monkeypatch, service)
    assert resolve_secret(reference) == VALUE
    assert service.asked == [asked or ("arn:aws:secretsmanager:eu-west-1:1:secret:redis",)]


@pytest.mark.parametrize("reference", ["env:RMQ_NO_SUCH", "file:/no/such", "vault:redis", "databricks:a/b", "aws:a"])
def test_an_error_names_the_reference_and_what_to_do(reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("boto3", "databricks", "databricks.sdk", "databricks.sdk.runtime"):
        monkeypatch.setitem(sys.modules, module, None)
    said = {"env": "set it", "file": "mount", "vault": "resolve", "databricks": "Databricks", "aws": "install boto3"}
    text = refused(reference)
    assert reference in text
    assert said[reference.partition(":")[0]] in text


@pytest.mark.parametrize("reference", ["databricks:a/b", "aws:a"])
def test_the_refusal_of_a_service_is_passed_on(reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ScriptedService(PermissionError("not yours")))
    text = refused(reference)
    assert reference in text
    assert "not yours" in text


@pytest.mark.parametrize("given", [VALUE, f'["{VALUE}"]', f'{{"user": "{VALUE}"}}'])
def test_a_secret_without_the_key_is_not_shown(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ScriptedService(given))
    text = refused("aws:redis#password")
    assert "aws:redis#password" in text
    assert VALUE not in text


def test_a_file_that_is_no_text_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(VALUE.encode() + b"\xff")
    assert VALUE not in refused(f"file:{tmp_path}/key")


@pytest.mark.parametrize("value", [VALUE, "", ":", "env:", f"{VALUE}:x y".upper()])
def test_what_is_no_reference_may_be_a_secret_and_is_not_shown(value: str) -> None:
    text = refused(value)
    assert "scheme:name" in text
    assert VALUE not in text.lower()


def test_an_empty_secret_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_PASSWORD", "")
    assert "empty" in refused("env:REDIS_PASSWORD")
