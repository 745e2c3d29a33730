"""Answers scrapes from the last reading of the queues, and says how old it is.

Law: slowness is not an outage. On a busy machine, reading many queues takes longer than Prometheus waits. So a reading
goes on after its scrape was answered with older numbers, and `rmq_up` is 0 only after a reading has failed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from prometheus_client.exposition import choose_encoder

from rmq_core.errors import QueueUnavailable
from rmq_core.serve.metrics import Encoder, queues_text, server_text
from rmq_core.serve.reading import QueueReading

FIRST_S = 6.0  # Prometheus gives up on a scrape after 10 s
BRIEF_S = 2.0
FRESH_S = 1.0


class Numbers(NamedTuple):
    """A reading, when it began, and its text by content type."""

    readings: Sequence[QueueReading]
    began: float
    texts: dict[str, bytes]


class Scrapes:
    """The scrapes of one server. `read` reads all queues; it raises QueueUnavailable when Redis does not answer."""

    def __init__(self, read: Callable[[], Awaitable[Sequence[QueueReading]]]) -> None:
        self._read = read
        self._reading: asyncio.Task[None] | None = None
        self._known: Numbers | None = None
        self._up: bool | None = None
        self._refused: Exception | None = None
        self._encoders: dict[str, Encoder] = {}

    async def answer(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics in the format that a client accepts, and their content type.

        Waits for the present reading: for two seconds, or for six if there is none before it. Raises the error of the
        last reading, unless that error is QueueUnavailable.
        """
        encode, content_type = choose_encoder(accept)
        self._encoders[content_type] = encode
        await self._renewed()
        if self._refused is not None:
            raise self._refused
        known = self._known
        age_s = None if known is None else time.monotonic() - known.began
        text = server_text(encode, up=self._up, age_s=age_s)
        if known is None or not self._up:
            return text, content_type
        if content_type not in known.texts:
            known.texts[content_type] = await asyncio.to_thread(queues_text, encode, known.readings)
        return text + known.texts[content_type], content_type

    async def close(self) -> None:
        """End a reading in progress."""
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading

    async def _renewed(self) -> None:
        """Start a reading unless one is in progress or the last one is fresh; wait for it, but not for long."""
        if self._reading is None and (self._known is None or time.monotonic() - self._known.began > FRESH_S):
            self._reading = asyncio.create_task(self._renew())
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=FIRST_S if self._known is None else BRIEF_S)

    async def _renew(self) -> None:
        began = time.monotonic()
        try:
            readings = await self._read()
            encoders, self._encoders = self._encoders, {}
            # Thousands of lines take a tenth of a second or more, in which other requests go on.
            texts = await asyncio.to_thread(
                lambda: {kind: queues_text(encode, readings) for kind, encode in encoders.items()}
            )
            self._known, self._up, self._refused = Numbers(readings, began, texts), True, None
        except QueueUnavailable:
            self._up, self._refused = False, None
        except Exception as error:  # the scrapes raise it, also those that come after this reading
            self._refused = error
        finally:
            self._reading = None
