"""The driver for clients that are not plain redis-py clients."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import fakeredis
import pytest
import redis
import redis.asyncio
from redis import exceptions as redis_errors

from rmq_core.exchange import Call, Patience, Wait
from rmq_core.exchange.aio import AsyncDriver
from rmq_core.exchange.loading import Script
from rmq_core.exchange.public import (
    AsyncPublicDriver,
    PublicDriver,
    async_driver,
    is_genuine,
    shared,
    sync_driver,
    undecoded,
)
from rmq_core.exchange.sync import SyncDriver

CALL = Call(Script("test", b"return 1", b"f" * 40), (b"key",), ("arg",))


class Stub:
    """A client that has nothing but `execute_command`."""

    def __init__(self, *replies: Any) -> None:
        self.replies, self.commands = list(replies), list[tuple[Any, ...]]()

    def execute_command(self, *args: Any) -> Any:
        self.commands.append(args)
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply


class AsyncStub(Stub):
    async def execute_command(self, *args: Any) -> Any:
        return super().execute_command(*args)


@pytest.fixture(params=[Stub, AsyncStub], ids=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> type[Stub]:
    chosen: type[Stub] = request.param
    return chosen


def ask(client: Stub, want: Any, patience: Patience | None = None) -> Any:
    def operation() -> Generator[Any, Any, Any]:
        return (yield want)

    if isinstance(client, AsyncStub):
        return asyncio.run(async_driver(client, b"rmq:{q}:", 0).run(operation(), patience))
    return sync_driver(client, b"rmq:{q}:", 0).run(operation(), patience)


def test_redis_pys_own_clients_get_the_fast_driver() -> None:
    assert type(sync_driver(redis.Redis(), b"", 0)) is SyncDriver
    assert type(async_driver(redis.asyncio.Redis(), b"", 0)) is AsyncDriver


def test_fakes_and_stubs_get_the_driver_that_uses_their_public_methods() -> None:
    assert type(sync_driver(fakeredis.FakeRedis(), b"", 0)) is PublicDriver
    assert type(async_driver(fakeredis.FakeAsyncRedis(), b"", 0)) is AsyncPublicDriver
    assert not is_genuine(Stub())


def test_queues_that_are_never_closed_share_the_driver_and_connections_of_a_client() -> None:
    client, other = redis.Redis(), redis.Redis()
    one = shared(sync_driver, client, b"rmq:{q}:", 30)
    assert shared(sync_driver, client, b"rmq:{q}:", 30) is one
    assert shared(sync_driver, client, b"rmq:{r}:", 30) is not one
    assert shared(sync_driver, other, b"rmq:{q}:", 30) is not one


def test_a_client_without_attributes_gets_a_driver_for_each_queue() -> None:
    class Slotted:
        __slots__ = ()

        def execute_command(self, *_: Any) -> None: ...

    client = Slotted()
    assert shared(sync_driver, client, b"", 30) is not shared(sync_driver, client, b"", 30)


def test_a_client_that_overrides_execute_command_gets_the_public_driver_too() -> None:
    class Watched(redis.Redis):
        def execute_command(self, *args: Any, **options: Any) -> Any:
            return super().execute_command(*args, **options)

    assert not is_genuine(Watched())


def test_replies_are_bytes_whether_or_not_the_client_decodes(kind: type[Stub]) -> None:
    client = kind(["a", [1, "b"], None])
    assert ask(client, CALL) == [b"a", [1, b"b"], None]
    assert client.commands == [("EVALSHA", b"f" * 40, 1, b"key", "arg")]
    assert undecoded(b"x") == b"x"


def test_waiting_polls_for_a_token_instead_of_blocking(kind: type[Stub]) -> None:
    client = kind(None, None, b"1", b"claimed")
    assert ask(client, Wait(b"wake", 5000, CALL)) == b"claimed"
    assert [command[0] for command in client.commands] == ["LPOP", "LPOP", "LPOP", "EVALSHA"]


def test_a_lost_connection_is_repeated_within_the_budget(kind: type[Stub]) -> None:
    client = kind(redis_errors.ConnectionError("cut"), b"ok")
    assert ask(client, CALL, Patience(5)) == b"ok"
    assert len(client.commands) == 2


def test_without_a_budget_only_the_retry_policy_of_the_client_applies(kind: type[Stub]) -> None:
    cut = redis_errors.ConnectionError("cut")
    client = kind(cut, b"ok")
    with pytest.raises(Exception, match="cut"):
        ask(client, CALL, Patience(None))
    assert len(client.commands) == 1
