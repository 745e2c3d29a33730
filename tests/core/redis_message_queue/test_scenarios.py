"""The programs in `scenarios` run unchanged: one for each documented use of redis-message-queue 7.

A scenario is a whole program with its own assertions. It runs in its own process, because some of them fork and handle
signals, with warnings as errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.warm import Warm, warm

FOLDER = Path(__file__).with_name("scenarios")
SCENARIOS = sorted(path.stem for path in FOLDER.glob("*.py"))
EXAMPLE_URL = "redis://localhost:6379/0"


@pytest.fixture(scope="module")
def imported() -> Iterator[Warm]:
    with warm("redis.asyncio", "rmq_core.redis_message_queue.asyncio") as process:
        yield process


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_runs(scenario: str, redis_url: str, tmp_path: Path, imported: Warm) -> None:
    text = (FOLDER / f"{scenario}.py").read_text("utf-8")
    assert EXAMPLE_URL in text
    program = tmp_path / f"{scenario}_scenario.py"
    program.write_text(text.replace(EXAMPLE_URL, redis_url), "utf-8")
    ended = imported.run(program)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""
