"""A sixth discipline is its folder and one record: everything that lists disciplines then includes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_cli import main
from rmq_cli.doctor_checks import needed
from rmq_core import ConfigurationError, asyncio, discipline_of, disciplines, open_queue
from rmq_core.protocol import DISCIPLINES
from tests.core.conformance.catalogue import PROMISES
from tests.core.conformance.kits import KITS
from tests.core.conformance.promises import Promise
from tests.core.conformance.stages import SyncStage, find_place
from tests.core.conformance.subject import Subject
from tests.core.toy import RECORD


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DISCIPLINES, RECORD.name, RECORD)
    monkeypatch.setitem(KITS, RECORD.name, KITS["reliable"])


@pytest.fixture(scope="module")
def stage() -> Iterator[SyncStage]:
    with find_place("embedded") as place:
        made = SyncStage(place)
        yield made
        made.close()


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.sentence.replace(" ", "-"))
def test_it_supports_the_capabilities_that_it_declares(promise: Promise, stage: SyncStage) -> None:
    subject = Subject(stage, RECORD.name)
    try:
        assert promise.check(subject) in {"kept", "refused"}
    finally:
        subject.close()


async def test_it_is_opened_and_found_by_its_name(server_url: str, redis_client: Any) -> None:
    with open_queue(server_url, "q", "toy") as queue:
        queue.publish("a")
    assert (discipline_of(server_url, "q"), disciplines(server_url)) == ("toy", {"q": "toy"})
    async with asyncio.open_queue(server_url, "q", "toy") as later:
        assert (await later.claim()).message.payload == "a"
    with pytest.raises(ConfigurationError, match="toy"):
        open_queue(server_url, "q", "nothing")


def test_the_command_line_lists_and_opens_it(
    server_url: str, redis_client: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RMQ_URL", server_url)

    def rmq(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*arguments])
        out, err = capfd.readouterr()
        assert ended.value.code == 0, err
        return out

    rmq("publish", "q", "a", "-d", "toy")
    assert "toy" in rmq("queues", "list")
    assert json.loads(rmq("peek", "q", "--json"))["payload"] == "a"
    assert {"BLMOVE", "HSET"} <= {*needed("toy", "q").commands}


def test_an_airflow_connection_can_name_it(server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = urlsplit(server_url)
    extra = {"discipline": "toy", "db": int(place.path.strip("/") or 0)}
    fields: dict[str, Any] = {"conn_type": "redis_queue", "host": place.hostname, "port": place.port, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_KEPT", json.dumps(fields))
    with RedisQueueHook("kept").work_queue("q") as queue:
        assert queue.discipline == "toy"
