from __future__ import annotations

from typing import Any

import pytest

from rmq_core import ConfigurationError, QueueUnavailable
from rmq_core.errors import QueueError
from rmq_core.streams import QueueConfig, QueueMessage, native
from rmq_core.streams.state import engine_of
from tests.core.streams.by_hand import drive, engine

MESSAGE = QueueMessage("orders", "billing", "1-0", {})


@pytest.mark.parametrize(
    ("operation", "replies"),
    [
        (lambda: native.read(engine()), ()),
        (lambda: native.enqueue(engine(), {}), ()),
        (lambda: native.acknowledge(engine(), MESSAGE), ()),
        (lambda: native.claim_stale(engine()), ()),
        (lambda: native.claim_stale(engine()), ([[b"1-0", b"other", 99, 1]],)),
        (lambda: native.backlog_stats(engine()), ()),
        (lambda: native.read(engine(known=False)), ()),
    ],
)
def test_every_failure_is_a_queue_error_with_its_cause_and_nothing_is_sent_after_it(
    operation: Any, replies: Any
) -> None:
    cause = QueueUnavailable("Redis did not answer: gone")
    with pytest.raises(QueueError, match="gone") as raised:
        drive(operation(), *replies, cause)
    assert raised.value.__cause__ is cause


@pytest.mark.parametrize("number", [0, -1, True, 1.5, "5"])
def test_times_and_counts_are_whole_numbers_above_zero(number: Any) -> None:
    for operation in (
        native.read(engine(), number), native.read(engine(), 1, number),
        native.claim_stale(engine(), number), native.claim_stale(engine(), 1, number),
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match="must be"):
            drive(operation)


def test_a_config_is_given_once() -> None:
    config = QueueConfig("orders", "billing", "me")
    with pytest.raises(ConfigurationError, match="config was given twice"):
        engine_of(config, config, None)
    with pytest.raises(ConfigurationError, match="config must be a QueueConfig, not dict"):
        engine_of("q", {}, None)  # type: ignore[arg-type]
