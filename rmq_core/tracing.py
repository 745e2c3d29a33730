"""Spans of OpenTelemetry for a queue: publish, claim and settle, linked from the publisher to the consumer.

`traced(queue)` is for one queue object, so a queue that is not traced pays nothing. The context travels in the header
`traceparent` (W3C). Spans have the names and attributes of OpenTelemetry's conventions for messaging; they
contain ids and numbers, never a payload, and so no text of an exception, which may quote one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from rmq_core.envelope.codec import header_items, split
from rmq_core.errors import ConfigurationError, MalformedMessage
from rmq_core.exchange import Exchange
from rmq_core.messages import Lease
from rmq_core.observe.fact import Begin, Invocation, begin_with
from rmq_core.protocol import require
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
    begin_with(one, Traces(one.name, propagate, trace).traced)
    return queue


class Traces:
    """Makes the spans of one queue. A lease keeps the context of its claim, for the span that settles it."""

    def __init__(self, queue: str, propagate: Any, trace: Any) -> None:
        self.queue, self.propagate, self.trace = queue, propagate, trace
        self.tracer = trace.get_tracer("rmq")

    def traced(self, begin: Begin, call: Invocation) -> Exchange[Any]:
        """Run an operation in a span, if its verb has one."""
        if call.verb not in _VERBS:
            return (yield from begin(call))
        with self._span(call) as span:
            result = yield from begin(call._replace(kwargs=self._given(call)))
            self._describe(span, result)
        return result

    @contextmanager
    def _span(self, call: Invocation) -> Iterator[Any]:
        """Open the span of a call; an exception sets its status to the name of the exception."""
        kind = _VERBS[call.verb]
        attributes = {
            "messaging.system": "rmq", "messaging.destination.name": self.queue, "messaging.operation.name": call.verb,
            "messaging.operation.type": kind,
        }  # fmt: skip
        args, kwargs = call.args, call.kwargs
        lease = args[0] if args and isinstance(args[0], Lease) else kwargs.get("lease", kwargs.get("ack"))
        links = [lease.state.span] if isinstance(lease, Lease) and lease.state.span else []
        with self.tracer.start_as_current_span(
            f"{call.verb} {self.queue}", kind=getattr(self.trace.SpanKind, _KINDS[kind]), attributes=attributes,
            links=[self.trace.Link(link) for link in links], record_exception=False, set_status_on_exception=False,
        ) as span:  # fmt: skip
            try:
                yield span
            except BaseException as error:
                span.set_status(self.trace.StatusCode.ERROR, type(error).__name__)
                raise

    def _given(self, call: Invocation) -> dict[str, Any]:
        """Return the named arguments of a call; those of a publish with the headers that identify its span."""
        kwargs = call.kwargs
        if _VERBS[call.verb] != "send":
            return kwargs
        headers: dict[str, str] = {}
        self.propagate.inject(headers)
        return {**kwargs, "headers": {**headers, **(kwargs.get("headers") or {})} or None}

    def _describe(self, span: Any, result: Any) -> None:
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
            result.state.span = span.get_span_context()

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
