"""How a stream is consumed: one frozen value, validated once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rmq_core.discipline.streams.keys import BACK, stream_of
from rmq_core.envelope.ids import new_id
from rmq_core.errors import ConfigurationError
from rmq_core.policy import whole
from rmq_core.protocol import Capabilities

CAPABILITIES = Capabilities(
    fenced=True, extend=True, auto_reclaim=True, partial_settle=True, batch=True, payload="dict"
)


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """Settings of a StreamQueue and a QueueConsumer.

    consumer_name: unique among all readers of the group; two readers that share it treat each other's messages as their
    own. claim_idle_ms: a message is stale when it was delivered this long ago or longer and is not acknowledged.
    block_ms: how long a read blocks in Redis. max_read_count: at most how many entries a read returns.
    claim_skip_own_messages: `claim_stale` skips messages that this consumer itself holds.
    """

    stream_key: str
    consumer_group: str
    consumer_name: str
    claim_idle_ms: int = 60_000
    block_ms: int = 5000
    max_read_count: int = 1
    claim_skip_own_messages: bool = False

    def __post_init__(self) -> None:
        for name in ("stream_key", "consumer_group", "consumer_name"):
            _text(name, getattr(self, name))
        for name in ("claim_idle_ms", "block_ms", "max_read_count"):
            positive(name, getattr(self, name))
        if self.consumer_name.startswith(BACK):
            raise ConfigurationError(f"consumer_name must not begin with {BACK!r}: tokens of leases do")

    @classmethod
    def named(
        cls, name: str, consumer_group: str = "rmq", consumer_name: str | None = None, **settings: Any
    ) -> QueueConfig:
        """Return the config of `open_queue(redis, name, "streams")`; by default, the consumer gets a unique name."""
        return cls(stream_of(name), consumer_group, consumer_name or new_id(), **settings)


def positive(name: str, value: int) -> int:
    """Return the value. Raises ConfigurationError with `name` unless it is above 0: 0 would block for ever."""
    if value == 0 and not isinstance(value, bool):
        raise ConfigurationError(f"{name} must be > 0")
    return whole(name, value, minimum=1)


def _text(name: str, value: str) -> None:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ConfigurationError(f"{name} must be a text without control characters, not {value!r}")
