from __future__ import annotations

import pickle

import pytest

from rmq_core.errors import (
    ConfigurationError,
    PayloadError,
    QueueFull,
    QueueUnavailable,
    StageLost,
)
from rmq_core.leased.publishing import publish_staged, stage
from rmq_core.messages import Stage
from rmq_core.policy import Overflow
from tests.core.by_hand import drive
from tests.core.leased.by_hand import engine, result

PLAIN, KEYED = Stage("plain", 2, plain=True), Stage("keyed", 1, plain=False)


def test_messages_staged_before_a_failure_are_dropped_while_redis_answers() -> None:
    failing = (text if text != "0" else {1: "no key"} for text in map(str, range(2_500, -1, -1)))  # type: ignore[misc]
    with pytest.raises(PayloadError):
        result(stage(engine(), failing), b"now @1", [b"dropped"])
    with pytest.raises(QueueUnavailable):
        result(stage(engine(), ["x"]), QueueUnavailable("away"))


def test_a_chunk_that_overtook_the_one_before_it_is_sent_again() -> None:
    replies = [b"now @1", [b"staged", b"lost", b"lost"], b"staged", b"staged"]
    staged, wants = drive(stage(engine(), map(str, range(2_500))), replies)
    assert staged.count == 2_500
    assert [call.given["count"] for call in wants[2:]] == [1000, 2000]


def test_a_committed_publication_succeeds_although_redis_becomes_unreachable_then() -> None:
    away = QueueUnavailable("away")
    for replies in ([b"committed", away], [b"committed", [b"2 1 plain"], b"moved 1 0 1", away]):
        published, _ = drive(publish_staged(engine(), [PLAIN]), replies)
        assert published


def test_a_blocking_publisher_does_not_wait_for_room_that_no_claim_can_make() -> None:
    narrow = engine(max_ready=2, overflow=Overflow.BLOCK(60))
    with pytest.raises(QueueFull, match="publish fewer at once or raise max_ready"):
        result(publish_staged(narrow, [PLAIN, KEYED]), b"full 5")


def test_a_sink_needs_a_name_and_a_whole_number() -> None:
    with pytest.raises(ConfigurationError, match="sink"):
        result(publish_staged(engine(), [PLAIN], sink=""))
    with pytest.raises(ConfigurationError, match="batch"):
        result(publish_staged(engine(), [PLAIN], sink="s", batch=-1))


def test_a_lost_stage_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(StageLost("s")))
    assert (error.stage_id, str(error)) == ("s", str(StageLost("s")))
