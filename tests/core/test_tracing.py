"""Spans of publish, claim and settle, linked from the publisher to the consumer."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rmq_core import NewMessage
from rmq_core.tracing import traced
from tests.core.worlds import World
from tests.tracing import Spans


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    return Spans(monkeypatch)


def test_a_claim_links_to_the_publishers_and_a_settlement_to_the_claim(world: World, spans: Spans) -> None:
    publisher, consumer = world.queue(), world.queue()
    for queue in (publisher, consumer):
        traced(getattr(queue, "inner", queue))
    published = publisher.publish("secret", headers={"tenant": "acme"})
    publisher.publish_many(["secret", NewMessage("secret", headers={})])
    lease = consumer.claim(max_messages=3)
    consumer.ack(lease)
    one, many, claim, ack = spans.ended
    assert [span.name for span in (one, many, claim, ack)] == ["publish q", "publish_many q", "claim q", "ack q"]
    assert [span.kind.name for span in (one, many, claim, ack)] == ["PRODUCER", "PRODUCER", "CLIENT", "CLIENT"]
    assert one.attributes["messaging.message.id"] == published.id
    assert [span.attributes["messaging.batch.message_count"] for span in (many, claim, ack)] == [2, 3, 3]
    assert [link.context.span_id for link in claim.links] == [one.context.span_id, many.context.span_id]
    assert [link.context.span_id for link in ack.links] == [claim.context.span_id]
    assert lease.messages[0].headers["tenant"] == "acme"
    assert "secret" not in "".join(span.to_json() for span in spans.ended)


PUBLISHER = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from rmq_core import LeasedQueue
from rmq_core.tracing import traced
trace.set_tracer_provider(TracerProvider())
with traced(LeasedQueue(sys.argv[1], "q")) as queue, trace.get_tracer("test").start_as_current_span("work") as span:
    queue.publish("x")
    print(span.get_span_context().trace_id)
"""


def test_a_claim_links_to_the_trace_of_a_publisher_in_another_process(world: World, spans: Spans) -> None:
    command = [sys.executable, "-c", PUBLISHER, world.url]
    trace_id = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    queue = world.queue()
    traced(getattr(queue, "inner", queue))
    queue.ack(queue.claim())
    assert [link.context.trace_id for link in spans.ended[0].links] == [trace_id]


def test_an_adoption_makes_a_span_and_its_settlement_links_to_it(world: World, spans: Spans) -> None:
    queue = world.queue()
    queue.publish("x")
    queue.claim(lease_id="job", owner="submitter")
    traced(getattr(queue, "inner", queue))
    queue.ack(queue.adopt("job", owner="driver"))
    adopt, ack = spans.ended
    assert (adopt.name, adopt.attributes["messaging.operation.type"]) == ("adopt q", "receive")
    assert spans.linked(ack) == [adopt.context.span_id]


def test_a_failed_call_ends_its_span_with_the_name_of_the_error(world: World, spans: Spans) -> None:
    queue = world.queue()
    traced(getattr(queue, "inner", queue))
    with pytest.raises(TypeError):
        queue.publish(None, nonsense=1)
    (span,) = spans.ended
    assert (span.status.status_code.name, span.status.description, span.events) == ("ERROR", "TypeError", ())
