"""Queues whose large payloads are files: what the queue stores, what becomes of a file, and who may say where it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pydantic
import pytest

import rmq_core.asyncio
from rmq_core import ClaimCheck, ConfigurationError, LeasedConfig, LeasedQueue, Match, Typed

LARGE: list[Any] = ["t" * 3000, b"\xff" * 3000, {"rows": [*range(2000)]}]


class Order(pydantic.BaseModel):
    id: int
    lines: list[str]


def opened(url: str, folder: Path, **options: Any) -> LeasedQueue[Any]:
    codec = ClaimCheck(str(folder), above=1000, codec=options.pop("typed", None))
    return LeasedQueue(url, "q", LeasedConfig(codec=codec, **options))


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()} if folder.exists() else set()


def test_large_payloads_of_every_kind_are_files_and_small_ones_are_not(redis_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    small = ["small", b"\x00", {"n": 1}]
    with opened(redis_url, folder) as queue:
        queue.publish_many(small)
        assert names(folder) == set()
        queue.publish_many(LARGE)
        queue.publish(LARGE[0])
        assert [name[:2] for name in sorted(names(folder))] == ["b-", "j-", "s-"]
        stored = [message.payload for message in queue.admin.peek(10)]
        assert stored[:3] == small
        assert [each["bytes"] for each in stored[3:]] == [3000, 3000, len(json.dumps(LARGE[2]).replace(" ", "")), 3000]
        with queue.process(max_messages=10) as batch:
            assert batch.payloads == [*small, *LARGE, LARGE[0]]
        assert batch.acked == 7


def test_equal_files_are_duplicates_and_keys_are_those_of_the_payload(redis_url: str, tmp_path: Path) -> None:
    with opened(redis_url, tmp_path, dedup=True) as queue:
        assert queue.publish_many([LARGE[0], LARGE[1], LARGE[0]]).accepted == 2
        queue.admin.purge("ready")
    orders = Typed(Order)
    with opened(redis_url, tmp_path, typed=orders, dedup_key=lambda order: f"order-{order.id}") as queue:
        order = Order(id=7, lines=["x" * 100] * 20)
        assert queue.publish(order).accepted
        assert not queue.publish({"id": 7, "lines": []}).accepted
        (found,) = queue.admin.search("ready", Match(dedup_key="order-7")).messages
        queue.admin.cancel(found.id)
        assert queue.publish(order).accepted
        assert queue.claim().message.payload == order


def test_a_missing_file_is_a_dead_letter_that_a_redrive_brings_back(redis_url: str, tmp_path: Path) -> None:
    folder, away = tmp_path / "files", tmp_path / "away"
    with opened(redis_url, folder) as queue:
        queue.publish_many([LARGE[0], "small"])
        (name,) = names(folder)
        (folder / name).rename(away)
        seen: list[Any] = []
        report = queue.run(lambda message: seen.append(message.payload), until_empty=True)
        assert (seen, report.dead) == (["small"], 1)
        (letter,) = queue.admin.dead_letters(10)
        assert letter.history[-1].reason == f"InvalidPayload: its file {name} is not in {folder}"
        away.rename(folder / name)
        queue.admin.redrive()
        assert queue.claim().message.payload == LARGE[0]


def test_a_file_that_cannot_be_read_for_a_while_is_tried_again(redis_url: str, tmp_path: Path) -> None:
    with opened(redis_url, tmp_path, max_deliveries=3) as queue:
        queue.publish(LARGE[0])
        (name,) = names(tmp_path)
        (tmp_path / name).write_bytes(b"half of it")
        with pytest.raises(OSError, match=f"{name} .* other bytes"), queue.process() as batch:
            assert batch.payloads == []
        assert (queue.stats().ready, queue.stats().dead) == (1, 0)
        queue.publish(LARGE[0])  # which another program had begun to do
        with queue.process(max_messages=2) as batch:
            assert batch.payloads == [LARGE[0]] * 2


@pytest.mark.parametrize("name", ["../secret", "s-" + "0" * 63 + "/", "/etc/passwd", "s3://other/file", 7])
def test_a_message_cannot_name_a_place(redis_url: str, tmp_path: Path, name: Any) -> None:
    (tmp_path / "secret").write_text("secret")
    forged = {"rmq-claim-check": name, "bytes": 6}
    with opened(redis_url, tmp_path / "files") as queue, LeasedQueue(redis_url, "q") as other:
        other.publish(forged)
        assert queue.claim().message.payload == forged
        queue.publish(forged)
        assert queue.claim().message.payload == forged


def test_what_an_operator_edits_stays_a_file(redis_url: str, tmp_path: Path) -> None:
    with opened(redis_url, tmp_path) as queue:
        queue.publish(LARGE[0])
        lease = queue.claim()
        stored = json.loads(lease.message.raw)
        queue.admin.dead_letter(lease.message.id)
        (letter,) = queue.admin.dead_letters(10)
        queue.admin.edit(letter.id, payload=stored)
        again = queue.claim()
        assert again.message.payload == LARGE[0]
        queue.admin.dead_letter(again.message.id)
        queue.admin.edit(letter.id, payload=LARGE[1])
        assert queue.claim().message.payload == LARGE[1]


def test_the_codec_refuses_what_it_cannot_do(redis_url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"ClaimCheck\('nowhere://x'\) needs fsspec .*nowhere"):
        ClaimCheck("nowhere://x")
    with pytest.raises(ConfigurationError, match="above"):
        ClaimCheck("/tmp", above=0)
    with pytest.raises(ConfigurationError, match="codec must be Typed"):
        ClaimCheck("/tmp", codec=Order)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="event loop"):
        rmq_core.asyncio.LeasedQueue(redis_url, "q", LeasedConfig(codec=ClaimCheck("/tmp")))
