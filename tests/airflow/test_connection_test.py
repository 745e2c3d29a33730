"""The button "Test" of the connection form, with typing errors and with servers that are not what they should be."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest
import redis
from airflow.models.connection import Connection

from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_core import ConfigurationError, QueueUnavailable
from tests.airflow.conftest import CANARY
from tests.airflow.floor import BELOW_33
from tests.servers import Server, start_server
from tests.servers.sentinel import Sentinel

Button = Callable[..., tuple[bool, str]]
NEEDS_33 = pytest.mark.skipif(BELOW_33, reason="only the API server tests connections")
UNTOLD = ("Error(", "Error:", "<redis", "Traceback")


@pytest.fixture
def press(monkeypatch: pytest.MonkeyPatch) -> Button:
    """Press the button: `press({"url": ...}, login=...)`."""

    def press(extra: dict[str, Any], **fields: Any) -> tuple[bool, str]:
        value = json.dumps({"conn_type": "redis_queue", **fields, "extra": extra})
        monkeypatch.setenv("AIRFLOW_CONN_TRIED", value)
        works, text = RedisQueueHook("tried").test_connection()
        assert not [word for word in UNTOLD if word in text], "said in words"
        return works, text

    return press


@pytest.fixture(scope="module")
def watched() -> Iterator[tuple[Server, Sentinel]]:
    """A server and the sentinel that watches it as `main`."""
    server = start_server("7.0")
    sentinel = Sentinel("7.0", [f"sentinel monitor main 127.0.0.1 {server.port} 1"])
    yield server, sentinel
    sentinel.close()
    server.stop()


@pytest.fixture
def locked(watched: tuple[Server, Sentinel]) -> Iterator[Sentinel]:
    """The same sentinel, which requires a password."""
    _, sentinel = watched
    with sentinel.client() as client:
        client.execute_command("ACL", "SETUSER", "default", "resetpass", ">open-7c2")
    yield sentinel
    with redis.Redis(port=sentinel.port, password="open-7c2") as client:
        client.execute_command("ACL", "SETUSER", "default", "nopass")


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"discipline": "leasd"}, "did you mean `leased`?"),
        ({"lease": "5 min"}, "extra `lease` must be a number of seconds"),
        ({"leese": 300}, "unknown extra `leese`, did you mean `lease`?"),
        ({"discipline": "streams", "lease": 300}, "extra `lease` is for the discipline leased"),
    ],
)
def test_a_wrong_extra_fails_the_connection_test_and_the_hook_although_the_server_answers(
    redis_url: str, press: Button, extra: dict[str, Any], said: str
) -> None:
    works, text = press({"url": redis_url, **extra})
    assert not works
    assert said in text
    with pytest.raises(ConfigurationError, match="connection 'tried'") as raised:
        _ = RedisQueueHook("tried").settings
    assert said in str(raised.value)


async def test_a_wrong_extra_is_an_error_in_an_event_loop_too(redis_url: str, press: Button) -> None:
    press({"url": redis_url, "lease": "5 min"})
    with pytest.raises(ConfigurationError, match="connection 'tried': extra `lease`"):
        await RedisQueueHook("tried").async_location()


@pytest.mark.parametrize(
    "value",
    [
        "redis_queue://example.org:7701/?db=3",
        "redis_queue://user:secret@example.org:7701/3",
        "redis_queue://",
        "redis-queue://user:secret@/?db=3",
        json.dumps({"conn_type": "redis_queue", "extra": {"db": 3}}),
    ],
)
@pytest.mark.parametrize("command_line", [False, True], ids=["environment", "conn-uri"])
def test_a_connection_of_which_airflow_finds_no_host_is_refused_everywhere_with_the_form_that_works(
    monkeypatch: pytest.MonkeyPatch, value: str, *, command_line: bool
) -> None:
    if command_line:
        made = Connection.from_json(value) if value.startswith("{") else Connection(uri=value)
        monkeypatch.setattr(RedisQueueHook, "get_connection", lambda *_: made)
    monkeypatch.setenv("AIRFLOW_CONN_TRIED", value)
    works, text = RedisQueueHook("tried").test_connection()
    assert not works
    with pytest.raises(ConfigurationError, match="connection 'tried': the host is missing") as refused:
        _ = RedisQueueHook("tried").settings
    for said in (text, str(refused.value)):
        assert "redis-queue://user:password@host:6379/?db=0" in said
        assert "secret" not in said


def test_an_embedded_server_is_neither_started_nor_is_its_folder_created(tmp_path: Path, press: Button) -> None:
    folder = tmp_path / "queues"
    works, text = press({"url": f"embedded://{folder}"})
    assert works
    assert "nothing was started or created" in text
    assert str(folder) in text
    assert list(tmp_path.iterdir()) == []


@NEEDS_33
@pytest.mark.parametrize(("password", "state"), [(CANARY, "success"), ("wrong-9d1", "failed")])
def test_a_worker_that_tests_a_connection_says_where_it_ran_and_leaves_no_connection_behind(
    password: str, state: str, secured_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.execution_time import connection_test_supervisor as worker

    place = urlsplit(secured_url)
    database = json.dumps({"db": int(place.path.strip("/") or 0), "lease": 20})
    given = SimpleNamespace(
        conn_id="tried", conn_type="redis_queue", host=place.hostname, port=place.port, login="airflow",
        password=password, schema_=None, extra=database,
    )  # fmt: skip
    told: list[tuple[str, str]] = []
    api = SimpleNamespace(
        get_connection=lambda _: given, update_state=lambda _, result, text: told.append((str(result.value), text))
    )
    monkeypatch.setattr(worker, "Client", lambda **_: SimpleNamespace(connection_tests=api))
    before = dict(os.environ)
    worker.supervise_connection_test(
        connection_test_id=UUID(int=1), connection_id="tried", timeout=30, token="t", server="http://api"
    )
    ((found, text),) = told
    assert found == state
    assert text.startswith(f"On {socket.gethostname()}: ")
    assert password not in text
    assert dict(os.environ) == before


def test_a_server_behind_sentinels_is_found(watched: tuple[Server, Sentinel], press: Button) -> None:
    works, text = press({"url": f"sentinel://127.0.0.1:{watched[1].port}/main"})
    assert works, text


def test_an_unknown_service_name_is_reported_with_those_that_sentinels_know(
    watched: tuple[Server, Sentinel], press: Button
) -> None:
    works, text = press({"url": f"sentinel://127.0.0.1:{watched[1].port}/mian"})
    assert not works
    assert "know no service 'mian', they watch 'main'; did you mean 'main'?" in text
    with pytest.raises(QueueUnavailable, match=r"the sentinels know no server 'mian' that is up: check the name"):
        ask_at_once()


@pytest.mark.parametrize("extra", [{}, {"sentinel_password": "wrong-1b8"}])
def test_sentinels_that_refuse_the_password_are_reported_separately(
    locked: Sentinel, press: Button, extra: dict[str, str]
) -> None:
    works, text = press({"url": f"sentinel://127.0.0.1:{locked.port}/main", **extra})
    assert not works
    assert "refused `sentinel_username` or `sentinel_password`" in text
    assert "wrong-1b8" not in text
    with pytest.raises(QueueUnavailable, match="refused `sentinel_username` or `sentinel_password`"):
        ask_at_once()


def ask_at_once() -> None:
    """Return the error of a task, without the half minute for which it would retry."""
    from rmq_core import LeasedConfig

    with RedisQueueHook("tried").queue("work", LeasedConfig(retry_budget=0.1)) as queue:
        queue.backlog()
