"""Spans of publish, claim and settle, linked from the publisher to the consumer."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rmq_core import NewMessage, Unsupported
from rmq_core.tracing import traced
from tests.redis.worlds import World


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    made, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return made


def test_a_claim_links_to_the_publishers_and_a_settlement_to_the_claim(
    world: World, exporter: InMemorySpanExporter
) -> None:
    publisher, consumer = world.queue(), world.queue()
    for queue in (publisher, consumer):
        traced(getattr(queue, "inner", queue))
    published = publisher.publish("secret", headers={"tenant": "acme"})
    publisher.publish_many(["secret", NewMessage("secret", headers={})])
    lease = consumer.claim(max_messages=3)
    consumer.ack(lease)
    one, many, claim, ack = exporter.get_finished_spans()
    assert [span.name for span in (one, many, claim, ack)] == ["publish q", "publish_many q", "claim q", "ack q"]
    assert [span.kind.name for span in (one, many, claim, ack)] == ["PRODUCER", "PRODUCER", "CLIENT", "CLIENT"]
    assert one.attributes["messaging.message.id"] == published.id
    assert [span.attributes["messaging.batch.message_count"] for span in (many, claim, ack)] == [2, 3, 3]
    assert [link.context.span_id for link in claim.links] == [one.context.span_id, many.context.span_id]
    assert [link.context.span_id for link in ack.links] == [claim.context.span_id]
    assert lease.messages[0].headers["tenant"] == "acme"
    assert "secret" not in "".join(span.to_json() for span in exporter.get_finished_spans())


def test_a_failed_call_ends_its_span_with_the_name_of_the_error(world: World, exporter: InMemorySpanExporter) -> None:
    queue = world.queue()
    traced(getattr(queue, "inner", queue))
    with pytest.raises(TypeError):
        queue.publish(None, nonsense=1)
    (span,) = exporter.get_finished_spans()
    assert (span.status.status_code.name, span.status.description, span.events) == ("ERROR", "TypeError", ())


def test_a_block_that_processes_makes_spans_too(world: World, exporter: InMemorySpanExporter) -> None:
    queue = world.queue()
    traced(getattr(queue, "inner", queue))
    queue.publish("x")
    with queue.process():
        pass
    assert [span.name for span in exporter.get_finished_spans()] == ["publish q", "claim q", "ack q"]


def test_a_discipline_without_headers_is_refused(world: World) -> None:
    queue = world.open("rotation")
    with pytest.raises(Unsupported, match="tracing"):
        traced(getattr(queue, "inner", queue))
