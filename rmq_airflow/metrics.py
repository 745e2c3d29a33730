"""Report a task's counters to Airflow's metrics, and carry the trace context across the queue.

Law: metrics and spans contain numbers, names and ids, never a payload, and so no exception text, which may quote one.
Metrics are named `rmq.…`, tagged with the queue and the operator; in a worker, the task SDK receives them.
`waiting.py` reports those of triggers, which Airflow itself receives. The trace context is in message headers with the
W3C names, and in links of the task's span; without OpenTelemetry's SDK, or with tracing off, there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperator, Stats
from opentelemetry import propagate, trace

from rmq_core import Message

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseNotifier


COUNTS = "_rmq_counts"


def report_counts(task: BaseOperator | BaseNotifier, queue: str, **counts: int) -> None:
    """Add each count to the counter `rmq.<name>`, skipping counts of zero; `reported_counts` returns them all."""
    known = vars(task).setdefault(COUNTS, {}).setdefault(queue, {})
    tags: dict[str, Any] = {"queue": queue, "operator": type(task).__name__}
    for name, count in counts.items():
        known[name] = known.get(name, 0) + count
        if count:
            Stats.incr(f"rmq.{name}", count, tags=tags)


def reported_counts(task: Any) -> dict[str, dict[str, int]]:
    """Return the counts that a task has reported, by queue."""
    return dict(vars(task).get(COUNTS, {}))


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
