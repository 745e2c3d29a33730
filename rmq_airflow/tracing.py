"""Carry the trace context across the queue: in message headers with the W3C names, and as links of the task's span.

Law: a span contains ids and numbers, never a payload, and so no exception text, which may quote one. Without
OpenTelemetry's SDK, or with tracing off, this module does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from opentelemetry import propagate, trace

from rmq_core import Message

MOST_LINKS = 128  # OpenTelemetry keeps this many links of a span by default
tracer = trace.get_tracer("rmq")


def trace_headers() -> dict[str, str]:
    """Return the headers that identify the current span; an empty dict if tracing is off."""
    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers


@contextmanager
def working_on(queue: str, messages: Sequence[Message]) -> Iterator[None]:
    """Open a span of the task, with links to the spans in which the messages were published."""
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
