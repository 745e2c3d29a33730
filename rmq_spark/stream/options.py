"""The options of `readStream.format("rmq")`, apart from the reader, because `format("rmq")` checks them before."""

from __future__ import annotations

from typing import Any

from rmq_core.orchestrate import chosen_groups
from rmq_spark.place.options import Option, duration, flag, names, size, text, whole
from rmq_spark.place.source import DELIVERIES, PARTITIONS, PLACE, VALUE_SCHEMA

CONSUMER = text("consumer", "the name of this stream's reader, which no other query uses")
APPLICATION = text("application", "the id of the Spark application").or_else(None)
CONSUMER_TIMEOUT = duration("consumerTimeout", 0.1).or_else(10.0)
LEASE = duration("leaseDuration").or_else(600.0)
POLL = duration("pollTimeout").or_else(1.0)
MOST_MESSAGES = whole("maxMessagesPerBatch").or_else(100_000)
MOST_BYTES = size("maxBytesPerBatch").or_else(None)
FAIL_ON_LOSS = flag("failOnDataLoss").or_else(True)
FAIL_ON_LEASE_LOSS = flag("failOnLeaseLoss").or_else(False)
GROUPS = names("groups", chosen_groups).or_else(None)
NEW_QUEUE = flag("newQueue").or_else(False)
STREAM: tuple[Option[Any], ...] = (
    *PLACE, PARTITIONS, CONSUMER, CONSUMER_TIMEOUT, LEASE, POLL, MOST_MESSAGES, MOST_BYTES, DELIVERIES, FAIL_ON_LOSS,
    FAIL_ON_LEASE_LOSS, NEW_QUEUE, APPLICATION, VALUE_SCHEMA, GROUPS,
)  # fmt: skip
