"""Streams: the types and helpers of `StreamQueue` and `QueueConsumer`."""

from __future__ import annotations

from rmq_core.discipline.streams.config import QueueConfig
from rmq_core.discipline.streams.effects import DbApi, EffectsOnce
from rmq_core.discipline.streams.messages import BacklogStats, QueueMessage
from rmq_core.discipline.streams.signals import stop_on_signals

__all__ = ["BacklogStats", "DbApi", "EffectsOnce", "QueueConfig", "QueueMessage", "stop_on_signals"]
