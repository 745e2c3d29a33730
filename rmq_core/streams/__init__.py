"""Streams: the types and helpers of `StreamQueue` and `QueueConsumer`."""

from __future__ import annotations

from rmq_core.streams.consumer import DbApi, EffectsOnce, stop_on_signals
from rmq_core.streams.state import BacklogStats, QueueConfig, QueueMessage

__all__ = ["BacklogStats", "DbApi", "EffectsOnce", "QueueConfig", "QueueMessage", "stop_on_signals"]
