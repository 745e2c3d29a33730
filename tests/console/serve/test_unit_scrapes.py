"""Scrapes while readings are slow, fail, or end in between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from rmq_console.serve import metrics
from rmq_console.serve.metrics import Scrapes
from rmq_console.serve.reading import QueueReading
from rmq_core.errors import QueueUnavailable, ScriptFailed
from rmq_core.reports import QueueStats

OPENMETRICS = "application/openmetrics-text;version=1.0.0"


class Redis:
    """Reads the queues when the test says so: `outcomes` are numbers of ready messages, or errors."""

    def __init__(self) -> None:
        self.outcomes: asyncio.Queue[int | Exception] = asyncio.Queue()
        self.begun = 0

    async def read(self) -> Sequence[QueueReading]:
        self.begun += 1
        outcome = await self.outcomes.get()
        if isinstance(outcome, Exception):
            raise outcome
        numbers = QueueStats(outcome, 0, 0, 0, 0, None, paused=False)
        return [QueueReading("work", "leased", stats=numbers, expired=0)]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scrapes wait for a moment only, and each starts a reading."""
    for name in ("FIRST_S", "BRIEF_S"):
        monkeypatch.setattr(metrics, name, 0.05)
    monkeypatch.setattr(metrics, "FRESH_S", 0)


@pytest.fixture
def redis() -> Redis:
    return Redis()


async def scraped(served: Scrapes, accept: str = "") -> dict[str, float]:
    body, _ = await served.answer(accept)
    families = list((openmetrics if accept else prometheus)(body.decode()))
    return {sample.name: sample.value for family in families for sample in family.samples}


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
async def test_a_slow_reading_is_no_outage_and_older_numbers_are_served_with_their_age(
    redis: Redis, accept: str
) -> None:
    served = Scrapes(redis.read)
    assert await scraped(served, accept) == {}  # nothing is known, not even whether Redis answers
    redis.outcomes.put_nowait(3)
    first = await scraped(served, accept)
    assert (first["rmq_up"], first["rmq_ready_messages"]) == (1, 3)
    ages = []
    for _ in range(3):
        again = await scraped(served, accept)
        assert (again["rmq_up"], again["rmq_ready_messages"]) == (1, 3)
        ages.append(again["rmq_reading_age_seconds"])
    assert ages == sorted(set(ages))
    assert redis.begun == 2  # the second one goes on
    redis.outcomes.put_nowait(4)
    later = await scraped(served, accept)
    assert later["rmq_ready_messages"] == 4
    await served.close()


async def test_a_reading_that_fails_takes_the_numbers_away_until_one_succeeds(redis: Redis) -> None:
    served = Scrapes(redis.read)
    redis.outcomes.put_nowait(3)
    await scraped(served)
    redis.outcomes.put_nowait(QueueUnavailable("gone"))
    for _ in range(2):
        down = await scraped(served)
        assert down["rmq_up"] == 0
        assert "rmq_ready_messages" not in down
        assert down["rmq_reading_age_seconds"] > 0
    redis.outcomes.put_nowait(4)
    assert (await scraped(served))["rmq_ready_messages"] == 4
    await served.close()


async def test_any_other_error_fails_the_scrapes_until_a_reading_succeeds(redis: Redis) -> None:
    served = Scrapes(redis.read)
    redis.outcomes.put_nowait(ScriptFailed("NOPERM"))
    for _ in range(2):
        with pytest.raises(ScriptFailed):
            await served.answer("")
    redis.outcomes.put_nowait(3)
    assert (await scraped(served))["rmq_up"] == 1


async def test_a_client_that_leaves_does_not_end_the_reading(redis: Redis) -> None:
    served = Scrapes(redis.read)
    scrape = asyncio.create_task(served.answer(""))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    scrape.cancel()
    redis.outcomes.put_nowait(3)
    assert (await scraped(served))["rmq_ready_messages"] == 3
    assert redis.begun == 1
