"""A minimal trigger: it fires, and its event contains the time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent


class FiringTrigger(BaseTrigger):
    """Fire a second or two after the start; the event is the time."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "benchmarks.airflow_firing.FiringTrigger", {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await asyncio.sleep(random.uniform(1, 2))
        yield TriggerEvent(time.monotonic())
