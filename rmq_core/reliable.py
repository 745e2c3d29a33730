"""The reliable queue: the types that `ReliableQueue` and `Reaper` take and return."""

from __future__ import annotations

from rmq_core.discipline.reliable.config import ReliableConfig
from rmq_core.discipline.reliable.operations.reaping import Reaped

__all__ = ["Reaped", "ReliableConfig"]
