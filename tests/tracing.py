"""Record the spans of OpenTelemetry in memory."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Spans:
    """The spans that ended in this process since the start of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._exporter, self.provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        monkeypatch.setattr(trace, "get_tracer", self.provider.get_tracer)

    @property
    def ended(self) -> list[Any]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[Any]:
        return [span for span in self.ended if span.name == name]

    @staticmethod
    def linked(span: Any) -> list[int]:
        """Return the ids of the spans that this span links to."""
        return [link.context.span_id for link in span.links]


def id_of(span: Any) -> int:
    """Return the id to which other spans link."""
    found: int = span.context.span_id
    return found
