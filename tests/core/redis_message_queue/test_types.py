"""A type checker sees the signatures of the sync or the async module, depending on the import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
from __future__ import annotations

from rmq_core import RedisMessageQueue
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


def check(text: str, folder: Path) -> list[str]:
    """Return what mypy reports about a program, line by line."""
    program = folder / "program.py"
    program.write_text(text)
    root = Path(__file__).parents[3]
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        f"--cache-dir={root / '.mypy_cache'}",
        program,
    ]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, cwd=root, timeout=300)
    assert ended.returncode in {0, 1}, ended.stderr
    return [line for line in ended.stdout.splitlines() if "program.py" in line and ": error:" in line]


def test_a_correct_program_passes_a_strict_type_checker(tmp_path: Path) -> None:
    assert check(PROGRAM, tmp_path) == []


def test_a_message_of_a_wrong_type_is_found_by_a_type_checker(tmp_path: Path) -> None:
    found = check(MISTAKES, tmp_path)
    assert len(found) == 2
    assert all("incompatible type" in line for line in found)
