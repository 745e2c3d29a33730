"""The metrics of all queues in Prometheus' text format, answered from the last reading, with its age.

Law: a metric that a discipline cannot have is absent, not 0: streams have no dead letters, only leased queues isolate,
only leased and job queues count what happens. Labels are the name of the queue and its discipline, so the number of
series grows with the number of queues alone.

Slowness is not an outage. On a busy machine, reading many queues takes longer than Prometheus waits. So a reading goes
on after its scrape was answered with older numbers, and `rmq_up` is 0 only after a reading has failed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from rmq_console.serve.reading import QueueReading
from rmq_core.errors import QueueUnavailable
from rmq_core.observe.history import BOUNDS_S
from rmq_core.orchestrate import claimable

Encoder = Callable[[Any], bytes]
LABELS = ("queue", "discipline")
EVENTS = {
    "published": "published", "duplicate": "duplicates", "dropped": "dropped", "claimed": "claimed", "acked": "acked",
    "nacked": "nacked", "released": "released", "reclaimed": "reclaimed", "taken_over": "taken_over", "dead": "dead",
    "redriven": "redriven", "replaced": "replaced",
}  # fmt: skip
"""The values of the label `event`, and the fields of a queue's totals."""
_END = b"# EOF\n"  # of the format OpenMetrics


class Gauge(NamedTuple):
    """A gauge of every queue that can be read; `value` returns None where the metric is absent."""

    name: str
    help: str
    value: Callable[[QueueReading], float | None]


def _stat(name: str, capability: str = "") -> Callable[[QueueReading], float | None]:
    def value(reading: QueueReading) -> float | None:
        has = not capability or getattr(reading.capabilities, capability)
        found = getattr(reading.stats, name) if has else None
        return None if found is None else float(found)

    return value


def _isolated(reading: QueueReading) -> float | None:
    return _stat("isolated")(reading) if reading.discipline == "leased" else None


def _paused(reading: QueueReading) -> float | None:
    return _stat("paused")(reading) if reading.can_pause else None


GAUGES = (
    Gauge("rmq_ready_messages", "Messages that can be claimed, isolated ones included.", _stat("ready")),
    Gauge("rmq_isolated_messages", "Ready messages that failed together and are tried apart.", _isolated),
    Gauge("rmq_delayed_messages", "Messages that become ready at a later time.", _stat("delayed", "delay")),
    Gauge("rmq_leased_messages", "Messages that a holder has claimed and not settled.", _stat("leased")),
    Gauge("rmq_leases", "Leases that are held.", _stat("leases")),
    Gauge(
        "rmq_expired_leases",
        "Leases that had expired when the queue was read. Reading it reclaims them.",
        lambda reading: reading.expired,
    ),
    Gauge("rmq_dead_letters", "Messages that failed too often.", _stat("dead", "dead_letters")),
    Gauge(
        "rmq_oldest_ready_age_seconds",
        "Age of the oldest ready message; absent when none is ready.",
        _stat("oldest_age"),
    ),
    Gauge(
        "rmq_oldest_lease_age_seconds",
        "Time since the lease was claimed that is held the longest; absent without leases.",
        _stat("oldest_lease"),
    ),
    Gauge("rmq_paused", "1 while claims get no messages.", _paused),
)


class _Collected:
    """What the encoder of prometheus_client asks a registry for."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> list[Metric]:
        return self._families


def server_text(encode: Encoder, *, up: bool | None, age_s: float | None) -> bytes:
    """Return the metrics of the server, to which those of the queues can be appended, without values that are None."""
    families = []
    if up is not None:
        families.append(GaugeMetricFamily("rmq_up", "0 when Redis did not answer the last reading.", value=float(up)))
    if age_s is not None:
        text = "Time since the numbers of this scrape were read from Redis."
        families.append(GaugeMetricFamily("rmq_reading_age_seconds", text, value=age_s))
    return encode(_Collected(families)).removesuffix(_END) if up else encode(_Collected(families))


def queues_text(encode: Encoder, readings: Sequence[QueueReading]) -> bytes:
    """Return the metrics of the queues."""
    return encode(_Collected(_families(readings)))


def _families(readings: Sequence[QueueReading]) -> Iterator[Metric]:
    readable = GaugeMetricFamily("rmq_queue_readable", "0 when the queue cannot be read.", labels=LABELS)
    for reading in readings:
        readable.add_metric(_labels(reading), float(reading.stats is not None))
    yield readable
    fine = [reading for reading in readings if reading.stats is not None]
    yield from (_gauge(gauge, fine) for gauge in GAUGES)
    yield from _totals([reading for reading in fine if reading.totals is not None])


def _gauge(gauge: Gauge, readings: Iterable[QueueReading]) -> Metric:
    family = GaugeMetricFamily(gauge.name, gauge.help, labels=LABELS)
    for reading in readings:
        value = gauge.value(reading)
        if value is not None:
            family.add_metric(_labels(reading), value)
    return family


def _totals(readings: Sequence[QueueReading]) -> Iterator[Metric]:
    if not readings:
        return
    events = CounterMetricFamily("rmq_messages", "Messages by what happened to them.", labels=(*LABELS, "event"))
    wait = HistogramMetricFamily("rmq_wait_seconds", "From published to claimed.", labels=LABELS)
    processing = HistogramMetricFamily("rmq_processing_seconds", "From claimed to settled.", labels=LABELS)
    for reading in readings:
        labels = _labels(reading)
        for event, field in EVENTS.items():
            events.add_metric([*labels, event], getattr(reading.totals, field))
        for family, histogram in ((wait, reading.totals.wait), (processing, reading.totals.processing)):
            family.add_metric(labels, _buckets(histogram.counts), histogram.sum)
    yield from (events, wait, processing)


def _buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    bounds = (*map(str, BOUNDS_S), "+Inf")
    return list(zip(bounds, map(float, accumulate(counts)), strict=True))


def _labels(reading: QueueReading) -> list[str]:
    return [reading.name, reading.discipline]


def scaling(reading: QueueReading) -> dict[str, Any]:
    """Return the numbers of a queue for KEDA's scaler `metrics-api`; a number that is not known is 0 or null.

    total: the messages that need a consumer now: ready or leased. A delayed message counts once it is due. Ready
    messages of a paused queue do not count, because claims do not get them.
    """
    stats = reading.stats
    if stats is None:
        raise ValueError(reading.error)
    return {
        "queue": reading.name, "discipline": reading.discipline, "ready": claimable(stats), "leased": stats.leased,
        "total": claimable(stats) + stats.leased, "delayed": stats.delayed, "dead": stats.dead,
        "oldest_age": (claimable(stats) and stats.oldest_age) or 0.0, "paused": stats.paused,
    }  # fmt: skip


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
