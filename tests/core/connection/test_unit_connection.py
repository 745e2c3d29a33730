from __future__ import annotations

import asyncio
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from rmq_core.connection.settings import RedisSettings
from rmq_core.errors import ConfigurationError

SECRET, USER = "canary-secret", "canary-user"
EVERY_KIND = [
    f"redis://{USER}:{SECRET}@h:6380/2?socket_timeout=2&client_name=me&protocol=3&max_connections=7",
    f"rediss://{USER}:{SECRET}@[::1]:6380?ssl_ca_certs=/c%20a.pem&ssl_password={SECRET}&ssl_check_hostname=false",
    f"unix://{USER}:{SECRET}@/run/my%20%3Fredis.sock?db=3",
    f"sentinel://{USER}:{SECRET}@a:1,b:2/main%2Fone/4?sentinel_username={USER}&sentinel_password={SECRET}&tls=true",
    f"redis+cluster://{USER}:{SECRET}@a:1,[fe80::1]:2?ssl_cert_reqs=none&tls=1",
    "embedded:///var/lib/a%20queue?db=1",
]
SINGLE = [url for url in EVERY_KIND if not url.startswith(("redis+cluster", "embedded"))]


@pytest.mark.parametrize("url", EVERY_KIND)
def test_neither_repr_nor_str_nor_the_safe_url_shows_a_credential(url: str) -> None:
    made = RedisSettings.from_url(url)
    for text in (repr(made), str(made), f"{made}", made.url_without_credentials):
        assert "canary" not in text
        assert "@" not in text


@pytest.mark.parametrize("url", EVERY_KIND)
def test_the_safe_url_and_the_credentials_make_the_same_settings_again(url: str) -> None:
    made = RedisSettings.from_url(url)
    names = ("username", "password", "sentinel_username", "sentinel_password", "ssl_password")
    assert RedisSettings.from_url(made.url_without_credentials, **{name: getattr(made, name) for name in names}) == made


@pytest.mark.parametrize("url", EVERY_KIND)
def test_pickling_keeps_everything_credentials_included(url: str) -> None:
    made = RedisSettings.from_url(url)
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert again.password == made.password
    assert hash(again) == hash(made)


@pytest.mark.parametrize("url", [url.replace("/c%20a.pem", str(Path(__file__))) for url in SINGLE])
def test_the_repr_of_a_client_shows_no_credential(url: str) -> None:
    made = RedisSettings.from_url(url)
    assert "canary" not in repr(made.client())
    assert "canary" not in repr(made.async_client())


def connection_options(url: str, **options: Any) -> dict[str, Any]:
    client = RedisSettings.from_url(url, **options).client()
    assert isinstance(client, redis.Redis)
    found: dict[str, Any] = client.get_connection_kwargs()
    return found


def test_a_client_has_the_configured_location_limits_and_names() -> None:
    found = connection_options("redis://h:6380/2?socket_timeout=2&socket_connect_timeout=3&client_name=me")
    assert (found["host"], found["port"], found["db"], found["client_name"]) == ("h", 6380, 2, "me")
    assert (found["socket_timeout"], found["socket_connect_timeout"], found["protocol"]) == (2, 3, 2)


def test_a_client_gives_bytes_and_leaves_health_checks_out() -> None:
    found = connection_options("redis://h")
    assert not found["decode_responses"]
    assert not found["health_check_interval"]


@pytest.mark.parametrize("name", ["ssl_ca_certs", "ssl_certfile", "ssl_keyfile"])
def test_a_tls_file_that_is_missing_is_named_before_connecting(name: str) -> None:
    made = RedisSettings.from_url("rediss://h", **{name: "/no/such.pem"})
    with pytest.raises(ConfigurationError, match=f"{name}: there is no file /no/such.pem"):
        made.client()


@pytest.mark.parametrize("url", ["redis://h", "unix:///s", "rediss://h", "sentinel://h/main"])
def test_no_client_retries_by_itself(url: str) -> None:
    made = RedisSettings.from_url(url)
    for client in (made.client(), made.async_client()):
        assert isinstance(client, redis.Redis | redis.asyncio.Redis)
        assert client.get_connection_kwargs()["retry"].get_retries() == 0


async def test_concurrent_connections_do_not_drop_a_sentinel() -> None:
    master = {"ip": "h", "port": 1, "is_master": True, "is_sdown": False, "is_odown": False, "num-other-sentinels": 2}

    async def masters(known: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return known

    client = RedisSettings.from_url("sentinel://a:1,b:2,c:3/main").async_client()
    manager = client.connection_pool.sentinel_manager
    first, second, third = manager.sentinels
    first.sentinel_masters = partial(masters, {})
    second.sentinel_masters = partial(masters, {"main": master})
    found = await asyncio.gather(manager.discover_master("main"), manager.discover_master("main"))
    assert found == [("h", 1)] * 2
    assert set(manager.sentinels) == {first, second, third}


def test_sentinels_are_queried_with_their_own_credentials() -> None:
    url = f"sentinel://{USER}:{SECRET}@a:1,b:2/main?sentinel_username=watcher&sentinel_password=other"
    client = RedisSettings.from_url(url).client()
    assert isinstance(client, redis.Redis)
    asked = [sentinel.get_connection_kwargs() for sentinel in client.connection_pool.sentinel_manager.sentinels]
    assert [(one["host"], one["port"]) for one in asked] == [("a", 1), ("b", 2)]
    assert {one["credential_provider"].get_credentials() for one in asked} == {("watcher", "other")}
    assert {one["retry"].get_retries() for one in asked} == {0}
    assert client.get_connection_kwargs()["credential_provider"].get_credentials() == (USER, SECRET)


def test_a_cluster_client_of_a_redis_py_without_the_option_gets_no_driver_info(monkeypatch: pytest.MonkeyPatch) -> None:
    class Older(redis.asyncio.RedisCluster):
        def __init__(self, *, startup_nodes: Any, **options: Any) -> None:
            assert "driver_info" not in options

    settings = RedisSettings.from_url("redis+cluster://h:1")
    monkeypatch.setattr("rmq_core.connection.settings._tidy_async_classes", lambda: (None, Older))
    assert isinstance(settings.async_client(), Older)
