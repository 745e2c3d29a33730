from __future__ import annotations

import json
import time

import pytest
from airflow.providers.common.compat.sdk import AirflowNotFoundException, redact

from rmq_airflow.connection_test import _ask, _compare_clocks
from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_core import LeasedConfig
from tests.airflow.conftest import CANARY, QUEUE


def test_a_missing_connection_is_named() -> None:
    with pytest.raises(AirflowNotFoundException, match="nowhere"):
        _ = RedisQueueHook("nowhere").settings


def test_a_queue_of_the_hook_logs_in_with_the_connections_user(connection: str) -> None:
    with RedisQueueHook(connection).queue(QUEUE) as queue:
        queue.publish("one")
        assert queue.backlog().ready == 1
        assert queue.client.acl_whoami() in ("airflow", b"airflow")


def test_the_lease_of_the_connection_is_the_default_and_a_config_overrides_it(
    connection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_LEASED", json.dumps({"conn_type": "redis_queue", "host": "h", "extra": {"lease": 77}})
    )
    hook = RedisQueueHook("leased")
    with hook.queue(QUEUE) as queue, hook.queue(QUEUE, LeasedConfig(lease=5)) as other:
        assert (queue.config.lease, other.config.lease) == (77, 5)


def test_the_test_button_reports_a_wrong_password_without_showing_it(
    connection: str, secured_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"conn_type": "redis_queue", "login": "airflow", "password": "wrong-9d1", "extra": {"url": secured_url}}
    monkeypatch.setenv("AIRFLOW_CONN_WRONG", json.dumps(fields))
    works, text = RedisQueueHook("wrong").test_connection()
    assert not works
    assert "Redis refused the `username` or `password`" in text
    assert "wrong-9d1" not in text


def test_credentials_show_in_no_repr(connection: str) -> None:
    hook = RedisQueueHook(connection)
    assert CANARY not in repr(hook.settings)
    with hook.queue(QUEUE) as queue, hook.get_conn() as client:
        assert CANARY not in repr(queue)
        assert CANARY not in repr(client)


def test_airflow_masks_the_password_after_its_first_use(connection: str) -> None:
    assert RedisQueueHook(connection).settings.password == CANARY
    assert redact(f"the driver printed {CANARY}") == "the driver printed ***"


class OldServer:
    """Replies of Redis 6.0, a version that the test suite does not run."""

    def ping(self) -> bool:
        return True

    def info(self, _section: str) -> dict[str, str]:
        return {"redis_version": "6.0.16"}


class SlowClock:
    def time(self) -> tuple[int, int]:
        return int(time.time()) - 60, 0


def test_the_test_button_refuses_a_server_that_is_too_old() -> None:
    works, text = _ask(OldServer())
    assert not works
    assert "6.2 or later" in text


def test_the_test_button_refuses_clocks_that_differ_too_much() -> None:
    works, text = _compare_clocks(SlowClock(), "7.0")
    assert not works
    assert "NTP" in text
