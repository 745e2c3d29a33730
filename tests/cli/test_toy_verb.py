"""A verb is an operation and its record: the command, the route and the button are made of the record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import reload
from typing import Any

import httpx
import pytest

from rmq_cli import app as commands
from rmq_console import changes, create_app
from rmq_core import Unsupported, open_queue
from rmq_core.admin.verbs import VERBS
from rmq_core.protocol import DISCIPLINES
from tests.console.host import PLACE, Kept, make_host
from tests.core.toy import RECORD
from tests.core.toy.touch import TOUCH


@pytest.fixture(autouse=True)
def _listed(redis_client: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    redis_client.flushdb()
    monkeypatch.setitem(DISCIPLINES, RECORD.name, RECORD)
    monkeypatch.setitem(VERBS, TOUCH.name, TOUCH)
    for made in (commands, changes):
        reload(made)
    yield
    monkeypatch.undo()
    for made in (commands, changes):
        reload(made)


def touched(client: Any) -> dict[str, str]:
    return {name.decode(): how.decode() for name, how in client.hgetall("rmq:reliable:{q}:touched").items()}


def test_it_is_a_command(rmq: Callable[..., Any], redis_client: Any) -> None:
    rmq("publish", "q", "a", "-d", "toy")
    assert "Touch messages of a queue." in rmq("--help").out
    usage = rmq("touch", "--help").out
    assert all(text in usage for text in ("FINGER", "Which finger touches it.", "--times", "How often."))
    asked = rmq("touch", "q", "thumb", "m1")
    assert (asked.code, "Touch 1 message of q (toy) on " in asked.err) == (2, True)
    refused = rmq("touch", "q", "thumb", "m1", "--times", "0", "--yes")
    assert (refused.code, "--times" in refused.err) == (2, True)
    assert rmq("touch", "q", "thumb", "m1", "m2", "--yes").out == "touched 2 messages of q with the thumb\n"
    again = rmq("touch", "q", "thumb", "m1", "m3", "--times", "3", "--yes", "--json")
    assert (again.code, again.records) == (1, [{"queue": "q", "finger": "thumb", "touched": 1, "missing": ["m1"]}])
    assert "not ready: m1" in again.err
    assert touched(redis_client) == {"m1": "thumb 1", "m2": "thumb 1", "m3": "thumb 3"}


async def test_it_is_a_route_and_a_button(server_url: str, redis_client: Any) -> None:
    audit = Kept()
    for name, discipline in (("q", "toy"), ("other", "leased")):
        with open_queue(server_url, name, discipline) as queue:
            queue.publish("a")
            if discipline == "leased":
                with pytest.raises(Unsupported, match="no way to touch a message; use toy"):
                    queue.admin.touch("m1", "thumb")
    headers = {"X-User": "changer", "X-RMQ-Request": "page"}
    transport = httpx.ASGITransport(create_app(make_host(server_url, audit)))
    base = f"http://console.test/api/connections/{PLACE}"
    async with httpx.AsyncClient(transport=transport, base_url=base, headers=headers) as page:
        shown = [(await page.get("/queue", params={"name": name})).json() for name in ("q", "other")]
        wish = {"queue": "q", "message_id": "m1", "finger": "thumb", "touches": 3}
        answers = [await page.post("/touch", json=wish) for _ in range(2)]
        wrong = [await page.post("/touch", json=wish | more) for more in ({"finger": None}, {"touches": 0})]
    assert [("touch" in each["lacks"], each["verbs"][-1]["label"]) for each in shown] == [
        (False, "Touch"), (True, "Touch"),
    ]  # fmt: skip
    assert [(each.status_code, each.json()) for each in answers] == [
        (200, {"touched": True}),
        (409, {"detail": "nothing was touched: this message is not ready any more"}),
    ]
    assert shown[0]["verbs"][-1]["takes"][1] == {
        "name": "touches", "help": "How often.", "kind": "int", "required": False, "least": 1, "option": "--times",
        "single": False, "metavar": "",
    }  # fmt: skip
    assert ([each.status_code for each in wrong], touched(redis_client)) == ([422, 422], {"m1": "thumb 3"})
    assert (audit.lines[1]["event"], audit.lines[1]["outcome"]) == ("rmq_touch", "done: messages touched: 1")
    assert {name: audit.lines[1][name] for name in wish} == wish
