"""Offsets of a stream: `{"v":1,"queue":…,"consumer":…,"stream":"<uuid>","seq":n}`.

Batch n of a stream is the lease `<consumer>/<stream>/<n>`. A stream belongs to one checkpoint: a new checkpoint starts
a new stream, and restarts of a query continue the same one. An offset names its queue and consumer, so that a
checkpoint cannot be used for others.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rmq_core import ConfigurationError

VERSION = 1


@dataclass(frozen=True, slots=True)
class Offset:
    """All batches of a stream up to number `seq`; 0 is before the first. By default, `stream` is a new stream's id."""

    queue: str
    consumer: str
    stream: str = field(default_factory=lambda: uuid.uuid4().hex)
    seq: int = 0

    @classmethod
    def read(cls, plain: Mapping[str, Any], queue: str, consumer: str) -> Offset:
        """Parse the result of `plain`. Raises ConfigurationError for the offset of another queue or consumer."""
        if plain.get("v") != VERSION:
            raise ConfigurationError(f"the checkpoint holds {dict(plain)!r}, which this version cannot read")
        offset = cls(plain["queue"], plain["consumer"], plain["stream"], plain["seq"])
        if (offset.queue, offset.consumer) != (queue, consumer):
            raise ConfigurationError(
                f"this checkpoint belongs to queue {offset.queue!r} and consumer {offset.consumer!r}, not to {queue!r}"
                f" and {consumer!r}: give this query a checkpointLocation of its own"
            )
        return offset

    @property
    def plain(self) -> dict[str, Any]:
        """Return the JSON object that Spark writes into its log."""
        return {"v": VERSION, **asdict(self)}

    @property
    def lease_id(self) -> str:
        """Return the id of the lease that holds batch `seq`."""
        return f"{self.consumer}/{self.stream}/{self.seq}"

    def at(self, seq: int) -> Offset:
        """Return the offset of batch `seq` in the same stream."""
        return replace(self, seq=seq)
