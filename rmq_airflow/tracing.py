"""Trace context across the queue: in message headers, by the W3C names, and as links of the span that works on them.

Law: a span tells ids and numbers, never a payload, and so not what an exception says about one. Without OpenTelemetry's
SDK, or with tracing off, all of this does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from opentelemetry import propagate, trace

from rmq_core import Message

MOST_LINKS = 128  # what OpenTelemetry keeps of a span's links by default
tracer = trace.get_tracer("rmq")


def trace_headers() -> dict[str, str]:
    """Headers that name the present span; none when tracing is off."""
    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers


@contextmanager
def working_on(queue: str, messages: Sequence[Message]) -> Iterator[None]:
    """A span of the task, linked to those in which the messages were published."""
    with tracer.start_as_current_span(
        f"process {queue}",
        kind=trace.SpanKind.CONSUMER,
        links=list(islice(_links(messages), MOST_LINKS)),
        attributes={
            "messaging.system": "rmq",
            "messaging.destination.name": queue,
            "messaging.operation.type": "process",
            "messaging.batch.message_count": len(messages),
        },
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except BaseException as error:
            span.set_status(trace.StatusCode.ERROR, type(error).__name__)
            raise


def _links(messages: Sequence[Message]) -> Iterator[trace.Link]:
    for message in messages:
        if "traceparent" in message.headers:
            published = trace.get_current_span(propagate.extract(message.headers)).get_span_context()
            if published.is_valid:
                yield trace.Link(published, {"messaging.message.id": message.id})
