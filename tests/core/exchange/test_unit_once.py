from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as Lost
from redis.exceptions import ResponseError
from redis.retry import Retry
from redis.sentinel import Sentinel

from rmq_core.errors import QueueUnavailable, ScriptFailed
from rmq_core.exchange import Command, Exchange, Listen
from rmq_core.exchange.once import AsyncOnceDriver, OnceDriver, async_once_driver, once_driver, without_retries
from rmq_core.exchange.public import AsyncPublicDriver, PublicDriver
from tests.core.exchange.wire import AsyncClient, Client, Reply, Wire

PING = Command(("PING",))


class Rig:
    """A driver of one attempt on a wire, run from plain code in both concurrency models."""

    def __init__(self, *, asynchronous: bool) -> None:
        self.wire = Wire()
        self.driver: Any = (
            AsyncOnceDriver(AsyncClient(self.wire), b"p:", 0)
            if asynchronous
            else OnceDriver(Client(self.wire), b"p:", 0)
        )

    def ask(self, want: Any, *replies: Reply) -> Any:
        self.wire.replies = list(replies)

        def operation() -> Exchange[Any]:
            return (yield want)

        result = self.driver.run(operation())
        return asyncio.run(result) if inspect.iscoroutine(result) else result


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def rig(request: pytest.FixtureRequest) -> Rig:
    return Rig(asynchronous=request.param)


@pytest.mark.parametrize("want", [PING, Listen(("PING",), 0)], ids=["command", "listen"])
def test_a_request_whose_connection_is_lost_is_sent_once(rig: Rig, want: Any) -> None:
    with pytest.raises(QueueUnavailable, match="gone"):
        rig.ask(want, Lost("gone"), b"PONG")
    assert len(rig.wire.sent) == 1
    assert rig.wire.replies == [b"PONG"]


def test_the_next_request_uses_a_new_connection(rig: Rig) -> None:
    with pytest.raises(QueueUnavailable):
        rig.ask(PING, Lost("gone"))
    assert rig.ask(PING, b"PONG") == b"PONG"
    assert rig.wire.opened == 2


def test_a_refusal_is_raised_and_a_server_that_cannot_answer_now_is_unavailable(rig: Rig) -> None:
    with pytest.raises(ScriptFailed, match="WRONG"):
        rig.ask(PING, ResponseError("WRONG"))
    with pytest.raises(QueueUnavailable, match="LOADING"):
        rig.ask(PING, ResponseError("LOADING Redis is loading"))
    assert len(rig.wire.sent) == 2


def test_a_command_goes_over_the_drivers_own_connection_and_not_through_the_client(rig: Rig) -> None:
    assert rig.ask(PING, b"PONG") == b"PONG"
    assert rig.wire.commands == []


def pools() -> dict[str, Any]:
    retry = {"retry": Retry(NoBackoff(), 9), "retry_on_timeout": True}
    sentinel = Sentinel([("127.0.0.1", 1)])
    return {
        "pool": redis.ConnectionPool(**retry),
        "blocking": redis.BlockingConnectionPool(**retry),
        "sentinel": sentinel.master_for("main", **retry).connection_pool,
        "asyncio": redis.asyncio.ConnectionPool(**retry),
        "unix": redis.ConnectionPool(connection_class=redis.UnixDomainSocketConnection, path="/nowhere", **retry),
    }


@pytest.mark.parametrize("kind", ["pool", "blocking", "sentinel", "asyncio", "unix"])
def test_connections_are_opened_without_the_retries_of_the_client_which_stay_configured(kind: str) -> None:
    pool = pools()[kind]
    twin = without_retries(pool)
    assert twin.make_connection().retry.get_retries() == 0
    assert pool.make_connection().retry.get_retries() == 9


def test_a_client_that_is_not_of_redis_py_is_also_called_once() -> None:
    calls = []

    class Fake:
        def execute_command(self, *args: Any) -> Any:
            calls.append(args)
            raise Lost("gone")

    driver = once_driver(Fake(), b"p:")
    assert isinstance(driver, PublicDriver)
    with pytest.raises(QueueUnavailable):
        driver.run(asking(Listen(("PING",), 0)))
    assert calls == [("PING",)]


def test_an_asyncio_client_that_is_not_of_redis_py_is_also_called_once() -> None:
    calls = []

    class Fake:
        async def execute_command(self, *args: Any) -> Any:
            calls.append(args)
            raise Lost("gone")

    driver = async_once_driver(Fake(), b"p:")
    assert isinstance(driver, AsyncPublicDriver)
    with pytest.raises(QueueUnavailable):
        asyncio.run(driver.run(asking(Listen(("PING",), 0))))
    assert calls == [("PING",)]


def asking(want: Any) -> Exchange[Any]:
    return (yield want)
