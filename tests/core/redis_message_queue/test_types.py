"""A type checker sees the signatures of the sync or the async module, and the type of the payloads of a typed queue."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from rmq_core import ClaimCheck, LeasedConfig, LeasedQueue, RedisMessageQueue, Typed
from rmq_core.asyncio import LeasedQueue as AsyncLeasedQueue
from rmq_core.redis_message_queue import RedisGateway
from rmq_core.redis_message_queue.asyncio import RedisGateway as AsyncRedisGateway
from rmq_core.asyncio import RedisMessageQueue as AsyncRedisMessageQueue


def work(queue: RedisMessageQueue, gateway: RedisGateway) -> bool:
    with queue.process_message() as message:
        if isinstance(message, bytes):
            return queue.publish(message.decode())
    return gateway.remove_message(queue.key.processing, "x", lease_token="t") or queue.drain(timeout=1) or queue.close()


async def work_later(queue: AsyncRedisMessageQueue, gateway: AsyncRedisGateway) -> bool:
    async with queue.process_message() as message:
        if isinstance(message, bytes):
            return await queue.publish(message.decode())
    removed = await gateway.remove_message(queue.key.processing, "x", lease_token="t")
    return removed or await queue.drain(timeout=1) or await queue.aclose()


@dataclass
class Order:
    id: int


def work_on_orders(url: str) -> None:
    queue = LeasedQueue(url, "orders", LeasedConfig(codec=Typed(Order)))
    with queue.process(max_messages=9) as batch:
        assert_type(batch.payloads, list[Order])
        for message in batch:
            assert_type(message.payload, Order)
    assert_type(LeasedQueue(url, "orders", LeasedConfig(codec=ClaimCheck(url, codec=Typed(Order)))), LeasedQueue[Order])


async def work_on_orders_later(queue: AsyncLeasedQueue[Order]) -> None:
    async with queue.process(max_messages=9) as batch:
        assert_type(await batch.payloads, list[Order])
"""
MISTAKES = """
from __future__ import annotations

from rmq_core import RedisMessageQueue
from rmq_core.asyncio import RedisMessageQueue as AsyncRedisMessageQueue


def work(queue: RedisMessageQueue) -> None:
    queue.publish(1)


async def work_later(queue: AsyncRedisMessageQueue) -> None:
    await queue.publish(1)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return what mypy reports about both programs, line by line, with the settings and the cache of `make lint`."""
    folder = tmp_path_factory.mktemp("programs")
    programs = {folder / "correct.py": PROGRAM, folder / "mistaken.py": MISTAKES}
    for program, text in programs.items():
        program.write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", *programs]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert ended.returncode in {0, 1}, ended.stderr
    return [line for line in ended.stdout.splitlines() if ": error:" in line]


def test_a_correct_program_passes_a_strict_type_checker(found: list[str]) -> None:
    assert [line for line in found if "mistaken.py" not in line] == []


def test_a_message_of_a_wrong_type_is_found_by_a_type_checker(found: list[str]) -> None:
    mistakes = [line for line in found if "mistaken.py" in line]
    assert len(mistakes) == 2
    assert all("incompatible type" in line for line in mistakes)
