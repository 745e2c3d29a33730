"""The reliable queue: the types that `ReliableQueue` and `Reaper` take and return."""

from __future__ import annotations

from rmq_core.reliable.reclaiming import Reaped
from rmq_core.reliable.state import ReliableConfig

__all__ = ["Reaped", "ReliableConfig"]
