"""Spans of OpenTelemetry for a queue: publish, claim and settle, linked from the publisher to the consumer.

`traced(queue)` replaces methods of one queue object, so a queue that is not traced pays nothing. The context travels in
the header `traceparent` (W3C). Spans have the names and attributes of OpenTelemetry's conventions for messaging; they
contain ids and numbers, never a payload, and so no text of an exception, which may quote one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from rmq_core.envelope.codec import header_items, split
from rmq_core.errors import ConfigurationError, MalformedMessage
from rmq_core.messages import Lease
from rmq_core.protocol import require
from rmq_core.queue.base import Awaited
from rmq_core.reports import Published, PublishReport, SettleReport

Q = TypeVar("Q")
_MOST_LINKS = 128  # OpenTelemetry keeps this many links of a span by default
_KINDS = {"send": "PRODUCER", "receive": "CLIENT", "settle": "CLIENT"}
_VERBS = {
    "publish": "send", "publish_many": "send", "claim": "receive", "claim_next": "receive", "adopt": "receive",
    "ack": "settle", "nack": "settle", "release": "settle",
}  # fmt: skip


def traced(queue: Q) -> Q:
    """Return the queue; from now on its calls make spans. Needs the extra `rmq[otel]`.

    publish and publish_many add the header `traceparent` of their span. A claim links to the spans in which its
    messages were published. A settlement links to the span of the claim or of the adoption; an adoption reads no
    messages and so has no links. NewMessage objects with headers of their own keep these as they are. Raises
    ConfigurationError without that package, Unsupported for a discipline without headers.
    """
    try:
        from opentelemetry import propagate, trace  # an optional package
    except ImportError as error:
        raise ConfigurationError("tracing needs OpenTelemetry: pip install 'rmq[otel]'") from error
    one: Any = queue
    require(one, "tracing", "headers")
    traces = Traces(one.name, propagate, trace)
    for verb in _VERBS:
        if hasattr(one, verb):
            setattr(one, verb, _wrapped(traces, verb, getattr(one, verb), awaited=isinstance(one, Awaited)))
    return queue


def _wrapped(traces: Traces, verb: str, call: Callable[..., Any], *, awaited: bool) -> Callable[..., Any]:
    @functools.wraps(call)
    def blocking(*args: Any, **kwargs: Any) -> Any:
        with traces.span(verb, args, kwargs) as span:
            result = call(*args, **traces.given(verb, kwargs))
            traces.describe(span, result)
            return result

    @functools.wraps(call)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        with traces.span(verb, args, kwargs) as span:
            result = await call(*args, **traces.given(verb, kwargs))
            traces.describe(span, result)
            return result

    return coroutine if awaited else blocking


class Traces:
    """Makes the spans of one queue. A lease keeps the context of its claim, for the span that settles it."""

    def __init__(self, queue: str, propagate: Any, trace: Any) -> None:
        self.queue, self.propagate, self.trace = queue, propagate, trace
        self.tracer = trace.get_tracer("rmq")

    @contextmanager
    def span(self, verb: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Any]:
        """Open the span of a call; an exception sets its status to the name of the exception."""
        kind = _VERBS[verb]
        attributes = {
            "messaging.system": "rmq", "messaging.destination.name": self.queue, "messaging.operation.name": verb,
            "messaging.operation.type": kind,
        }  # fmt: skip
        lease = args[0] if args and isinstance(args[0], Lease) else kwargs.get("lease", kwargs.get("ack"))
        links = [lease.state.span] if isinstance(lease, Lease) and hasattr(lease.state, "span") else []
        with self.tracer.start_as_current_span(
            f"{verb} {self.queue}", kind=getattr(self.trace.SpanKind, _KINDS[kind]), attributes=attributes,
            links=[self.trace.Link(link) for link in links], record_exception=False, set_status_on_exception=False,
        ) as span:  # fmt: skip
            try:
                yield span
            except BaseException as error:
                span.set_status(self.trace.StatusCode.ERROR, type(error).__name__)
                raise

    def given(self, verb: str, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call; those of a publish with the headers that identify its span."""
        if _VERBS[verb] != "send":
            return kwargs
        headers: dict[str, str] = {}
        self.propagate.inject(headers)
        return {**kwargs, "headers": {**headers, **(kwargs.get("headers") or {})} or None}

    def describe(self, span: Any, result: Any) -> None:
        """Add to a span what the result of its call tells."""
        if isinstance(result, Published):
            span.set_attribute("messaging.message.id", result.id)
        elif isinstance(result, PublishReport):
            span.set_attribute("messaging.batch.message_count", result.accepted)
        elif isinstance(result, SettleReport):
            span.set_attribute("messaging.batch.message_count", result.settled)
        elif isinstance(result, Lease):
            span.set_attribute("messaging.batch.message_count", result.count)
            for link, message_id in islice(self._links(result.envelopes or ()), _MOST_LINKS):
                span.add_link(link, {"messaging.message.id": message_id})
            result.state.span = span.get_span_context()  # type: ignore[attr-defined]

    def _links(self, envelopes: Iterable[bytes]) -> Iterator[tuple[Any, str]]:
        """Yield the spans in which messages were published, and the ids of the messages."""
        for envelope in envelopes:
            if b"traceparent" not in envelope:
                continue
            try:
                own = split(envelope)
                found = self.propagate.extract(dict(header_items(own.headers)))
            except MalformedMessage:
                continue
            published = self.trace.get_current_span(found).get_span_context()
            if published.is_valid:
                yield published, own.id
