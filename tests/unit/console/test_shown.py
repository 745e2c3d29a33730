from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rmq_core import Isolation, Message
from rmq_core.console import Holder, shown
from rmq_core.console.shown import SHOWN_BINARY, SHOWN_BYTES, stats_shown
from rmq_core.messages import Failure
from rmq_core.reports import LeaseInfo, QueueStats

AT = datetime.fromtimestamp(1.5, UTC)
OWNER = "airflow:etl/run/load/-1/2"


def holder_of(owner: str) -> Holder | None:
    names = owner.removeprefix("airflow:").split("/")
    return {"names": names, "run": "run", "attempt": "try 2", "href": "/task"} if len(names) > 1 else None


def message_shown(message: Message, due: datetime | None = None) -> dict[str, Any]:
    return shown.message_shown(message, holder_of, due)


def lease_shown(lease: LeaseInfo) -> dict[str, Any]:
    return shown.lease_shown(lease, holder_of)


def message(raw: bytes = b"{}", kind: str = "j", **fields: Any) -> Message:
    about: dict[str, Any] = {"headers": {}, "enqueued_ms": 1000, "deliveries": 0, "index": 0, "lease_id": "", **fields}
    return Message("m", raw, kind, **about)


def lease(**fields: Any) -> LeaseInfo:
    about: dict[str, Any] = {
        "id": "etl/run/load/-1", "owner": OWNER, "state": "held", "count": 10, "settled": 4, "takeovers": 1,
        "claimed_at": AT, "deadline": AT, "fence": 7, **fields,
    }  # fmt: skip
    return LeaseInfo(**about)


@pytest.mark.parametrize(("kind", "word"), [("j", "json"), ("s", "text")])
def test_a_text_payload_is_shown_as_it_is_stored(kind: str, word: str) -> None:
    found = message_shown(message('{"a":"ż"}'.encode(), kind, headers={"k": "v"}))
    assert (found["kind"], found["payload"], found["cut"], found["size"]) == (word, '{"a":"ż"}', False, 10)
    assert found["headers"] == {"k": "v"}
    assert found["enqueued_at"] == 1000


def test_bytes_are_shown_as_hexadecimal_numbers() -> None:
    found = message_shown(message(b"\x00\xfe", "b"))
    assert (found["kind"], found["payload"]) == ("bytes", "00 fe")


@pytest.mark.parametrize(("kind", "limit"), [("s", SHOWN_BYTES), ("b", SHOWN_BINARY)])
def test_a_long_payload_is_truncated_and_marked(kind: str, limit: int) -> None:
    whole, longer = (message_shown(message(b"x" * size, kind)) for size in (limit, limit + 1))
    assert (whole["cut"], longer["cut"]) == (False, True)
    assert longer["size"] == limit + 1
    assert longer["payload"] == whole["payload"]


def test_a_cut_inside_a_character_leaves_it_out() -> None:
    found = message_shown(message(b"x" * (SHOWN_BYTES - 1) + "ż".encode(), "s"))
    assert found["payload"] == "x" * (SHOWN_BYTES - 1)


def test_a_dead_letter_shows_what_happened_and_its_owner() -> None:
    found = message_shown(message(history=(Failure("nack", AT, OWNER, "bad row"), Failure("expired", AT, "me", ""))))
    first, second = found["history"]
    assert (first["kind"], first["at"], first["reason"], first["holder"]["names"][2]) == (
        "nack",
        1500,
        "bad row",
        "load",
    )
    assert (second["owner"], second["holder"]) == ("me", None)


def test_a_delayed_message_shows_when_it_is_due() -> None:
    assert message_shown(message(), AT)["due"] == 1500
    assert message_shown(message())["due"] is None


def test_a_lease_is_shown_with_its_task_and_without_its_token() -> None:
    found = lease_shown(lease())
    assert found["holder"] == {
        "names": ["etl", "run", "load", "-1", "2"],
        "run": "run",
        "attempt": "try 2",
        "href": "/task",
    }
    assert (found["claimed_at"], found["deadline"], found["count"], found["settled"]) == (1500, 1500, 10, 4)
    assert not {"token", "fence"} & set(found)


def test_a_lease_reduced_by_isolation_shows_why() -> None:
    assert lease_shown(lease())["isolation"] is None
    words = lease_shown(lease(isolation=Isolation(3, 4)))["isolation"]
    assert words == str(Isolation(3, 4))
    assert "3 times" in words


def test_an_endless_lease_is_shown_without_a_deadline() -> None:
    assert lease_shown(lease(deadline=None))["deadline"] is None


def test_the_numbers_of_a_queue_are_shown_under_their_names() -> None:
    found = stats_shown("work", "leased", QueueStats(1, 2, 3, 4, 5, 6.5, paused=True))
    assert found == {
        "name": "work", "discipline": "leased", "ready": 1, "delayed": 2, "leased": 3, "leases": 4, "dead": 5,
        "oldest_age": 6.5, "paused": True, "isolated": 0,
    }  # fmt: skip
