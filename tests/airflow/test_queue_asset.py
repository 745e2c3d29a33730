"""The URI of a queue as an asset, handled by Airflow itself."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from airflow.providers.common.compat.openlineage import facet
from airflow.providers.common.compat.sdk import Asset
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

from rmq_airflow.assets.queue import FORMS, convert_asset_to_openlineage, create_asset, queue_asset
from rmq_core import RedisSettings


@pytest.mark.parametrize(
    ("url", "uri"),
    [
        ("redis://Cache.example/0", "rmq://cache.example:6379/0/work"),
        ("rediss://cache.example:6380/3", "rmq://cache.example:6380/3/work"),
        ("redis://[::1]:6379/0", "rmq://[::1]:6379/0/work"),
        ("sentinel://b:26379,a:26380/main/2", "rmq+sentinel://a:26380,b:26379/main/2/work"),
        ("redis+cluster://n2:7001,n1:7000", "rmq+cluster://n1:7000,n2:7001/0/work"),
        ("unix:///run/redis/redis.sock?db=1", "rmq+unix:/run/redis/redis.sock/1/work"),
        ("embedded:///var/lib/rmq", "rmq+embedded:/var/lib/rmq/0/work"),
    ],
)
def test_every_kind_of_location_has_a_uri_form(url: str, uri: str) -> None:
    asset = queue_asset(RedisSettings.from_url(url), "work")
    assert asset.uri == uri
    assert Asset(uri=asset.uri).uri == uri, "a URI that is as it should be stays as it is"


def test_the_uri_contains_no_credentials() -> None:
    settings = RedisSettings.from_url("redis://h:6379/0", username="u", password="canary-77")
    assert queue_asset(settings, "work").uri == "rmq://h:6379/0/work"


@pytest.mark.parametrize(
    ("written", "uri"),
    [
        ("rmq://HOST/0/work", "rmq://host:6379/0/work"),
        ("RMQ://host:6379/00/work/", "rmq://host:6379/0/work"),
        ("rmq://host/0/a b", "rmq://host:6379/0/a%20b"),
        ("rmq+sentinel://b,a:1,b:26379/main/0/work", "rmq+sentinel://a:1,b:26379/main/0/work"),
        ("rmq+unix:///run/redis.sock/0/work", "rmq+unix:/run/redis.sock/0/work"),
    ],
)
def test_two_spellings_of_one_queue_are_one_asset(written: str, uri: str) -> None:
    assert Asset(uri=written).uri == uri


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("rmq://host", "does not name a queue"),
        ("rmq://host/0", "does not name a queue"),
        ("rmq://host/work", "does not name a queue"),
        ("rmq://host/main/0/work", "does not name a queue"),
        ("rmq://host/zero/work", "is not a database"),
        ("rmq:///0/work", "do not fit this scheme"),
        ("rmq://a,b/0/work", "do not fit this scheme"),
        ("rmq://host:port/0/work", "do not fit this scheme"),
        ("rmq://user@host/0/work", "no user or password"),
        ("rmq://host/0/work?db=1", "no options"),
        ("rmq+sentinel://a:1/0/work", "does not name a queue"),
        ("rmq+cluster://a:1/1/work", "is not a database"),
        ("rmq+unix:///0/work", "does not name a queue"),
        ("rmq+unix://host/run/redis.sock/0/work", "do not fit this scheme"),
    ],
)
def test_a_uri_that_names_no_queue_is_refused_and_an_example_given(uri: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        Asset(uri=uri)
    assert FORMS[uri.partition(":")[0]].example in str(refused.value)


@pytest.mark.parametrize("form", FORMS)
def test_the_examples_of_the_forms_are_valid_assets(form: str) -> None:
    assert Asset(uri=FORMS[form].example).uri == FORMS[form].example


class Dataset(NamedTuple):
    """The part of the OpenLineage client that is used; the client is not a dependency of this project."""

    namespace: str
    name: str


@pytest.mark.parametrize("queue", ["a/b", "ä b", "a%2Fb", "x?y#z"])
def test_openlineage_gets_the_server_and_any_name_of_a_queue(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facet, "Dataset", Dataset)
    asset = create_asset(queue=queue, host="h", db=2)
    assert convert_asset_to_openlineage(asset, None) == Dataset("rmq://h:6379/2", queue)


def test_airflow_finds_handler_factory_and_converter() -> None:
    manager = ProvidersManagerTaskRuntime()
    assert set(FORMS) <= set(manager.asset_uri_handlers)
    assert set(FORMS) <= set(manager.asset_to_openlineage_converters)
    made = manager.asset_factories["rmq"](queue="work", host="h", extra={"team": "data"})
    assert (made.uri, made.extra) == ("rmq://h:6379/0/work", {"team": "data"})
