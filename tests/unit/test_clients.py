from __future__ import annotations

from typing import Any

import pytest
import redis
import redis.asyncio

from rmq_core import ConfigurationError, RedisSettings
from rmq_core.connection.clients import async_client, server_of, sync_client

URL = "redis://127.0.0.1:1/0"


def test_a_client_of_the_user_is_used_and_not_closed() -> None:
    blocking, later = redis.Redis.from_url(URL), redis.asyncio.Redis.from_url(URL)
    assert sync_client(blocking) == (blocking, False)
    assert async_client(later) == (later, False)


@pytest.mark.parametrize("given", [URL, RedisSettings.from_url(URL)])
def test_settings_and_urls_create_a_client_of_rmq(given: Any) -> None:
    blocking, owned = sync_client(given)
    later, also_owned = async_client(given)
    assert isinstance(blocking, redis.Redis)
    assert isinstance(later, redis.asyncio.Redis)
    assert owned
    assert also_owned


@pytest.mark.parametrize("wrong", [None, 5, object(), redis.Redis, redis.Redis.from_url(URL).pipeline()])
def test_anything_else_is_refused(wrong: Any) -> None:
    for make in (sync_client, async_client):
        with pytest.raises(ConfigurationError, match="redis must be a client, RedisSettings or a URL, not"):
            make(wrong)


def test_a_client_of_the_other_concurrency_model_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="must be a blocking client here"):
        sync_client(redis.asyncio.Redis.from_url(URL))
    with pytest.raises(ConfigurationError, match=r"must be a redis\.asyncio client here"):
        async_client(redis.Redis.from_url(URL))


def test_clients_of_one_server_are_recognized() -> None:
    one, same, other = (redis.Redis(host=host, port=port) for host, port in [("a", 1), ("a", 1), ("a", 2)])
    assert server_of(one) == server_of(same) != server_of(other)
    assert server_of(redis.Redis(unix_socket_path="/a")) != server_of(redis.Redis(unix_socket_path="/b"))
    assert server_of(object()) is not None
