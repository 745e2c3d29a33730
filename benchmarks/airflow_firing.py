"""The least that a trigger can do: it fires, and says when."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent


class FiringTrigger(BaseTrigger):
    """Fires a second or two after it was started, with the moment."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "benchmarks.airflow_firing.FiringTrigger", {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await asyncio.sleep(random.uniform(1, 2))
        yield TriggerEvent(time.monotonic())
