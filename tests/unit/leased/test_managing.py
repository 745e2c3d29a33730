from __future__ import annotations

from typing import Any

import pytest

from rmq_core.discipline.leased.operations.managing import (
    cancel,
    forget,
    purge,
    redrive,
    redrive_some,
    release_unanswered,
)
from rmq_core.errors import ConfigurationError, PayloadError, QueueFull, QueueUnavailable, ScriptFailed
from rmq_core.events import QueueEvent
from tests.unit.leased.by_hand import asked, drive, engine, envelope, envelopes, given, result, scripts


def test_a_redrive_of_no_messages_emits_no_event() -> None:
    events: list[QueueEvent] = []
    assert result(redrive(engine(on_event=events.append)), b"redriven 0") == 0
    assert events == []


def test_a_redrive_into_a_full_server_is_an_error() -> None:
    with pytest.raises(QueueFull):
        drive(redrive(engine()), [QueueFull("OOM")])


@pytest.mark.parametrize("max_messages", [0, -1, True, 1.5])
def test_a_redrive_of_no_messages_is_refused(max_messages: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^max_messages must be"):
        next(redrive(engine(), max_messages))


def test_the_search_for_chosen_dead_letters_ends_when_all_are_found() -> None:
    assert scripts(asked(redrive_some(engine(), ["m7"]), envelopes(1000), b"redriven 1")) == ["scan", "redrive_some"]


def test_many_chosen_dead_letters_are_moved_ten_at_a_time() -> None:
    ids = [f"m{number}" for number in range(25)]
    moved, wants = drive(redrive_some(engine(), ids), [envelopes(25), b"redriven 10", b"redriven 9", b"redriven 5"])
    assert moved == 24
    assert [len(want.given["letters"]) for want in wants[1:]] == [10, 10, 5]


@pytest.mark.parametrize("message_ids", [[], ["elsewhere"]])
def test_missing_dead_letters_are_not_redriven(message_ids: list[str]) -> None:
    replies = [envelopes(3)] if message_ids else []
    assert result(redrive_some(engine(), message_ids), *replies) == 0


@pytest.mark.parametrize(
    ("message_ids", "match"), [("m1", "pass \\[message_id\\]"), ([5], "must be the str that publish returned")]
)
def test_an_argument_without_dead_letter_ids_is_refused(message_ids: Any, match: str) -> None:
    with pytest.raises(ConfigurationError, match=match):
        next(redrive_some(engine(), message_ids))


@pytest.mark.parametrize("target", ["leases", "lease", "fence", "", "prefix", "Ready", None, ["ready"]])
def test_only_parts_without_a_holder_can_be_purged(target: Any) -> None:
    with pytest.raises(
        ConfigurationError, match="target must be one of ready, isolated, delayed, dead, completed, failed"
    ):
        next(purge(engine(), target))


@pytest.mark.parametrize("operation", [purge(engine(), "dead"), redrive(engine()), forget(engine(), "k")])
def test_an_answer_without_a_number_is_an_error(operation: Any) -> None:
    with pytest.raises(ScriptFailed, match="the server answered 'superseded'"):
        drive(operation, [b"superseded"])


def test_a_message_claimed_between_finding_and_removing_is_not_cancelled() -> None:
    assert result(cancel(engine(), "wanted"), [envelope("x", "wanted")], b"removed 0", []) is False


def test_a_long_queue_is_searched_in_slices_that_overlap() -> None:
    wants = asked(cancel(engine(), "wanted"), envelopes(1000), envelopes(1000), envelopes(999), [])
    assert [given(want, "first", "last") for want in wants] == [[-1000, -1], [-1900, -901], [-2800, -1801], [-1000, -1]]


@pytest.mark.parametrize("message_id", [5, b"m", None])
def test_an_id_that_publish_never_returned_is_refused(message_id: Any) -> None:
    with pytest.raises(ConfigurationError, match="message_id must be the str that publish returned"):
        next(cancel(engine(), message_id))


@pytest.mark.parametrize("dedup_key", ["", b"", 5, None, "\ud800"])
def test_a_key_that_no_message_can_have_is_refused(dedup_key: Any) -> None:
    with pytest.raises(PayloadError, match=r"^dedup_key "):
        next(forget(engine(), dedup_key))


def test_unanswered_claims_are_kept_during_an_outage_of_redis() -> None:
    core = engine()
    core.unanswered = {"~1": "n1", "~2": "n2"}
    with pytest.raises(QueueUnavailable):
        drive(release_unanswered(core), [b"lost", QueueUnavailable("gone")])
    assert core.unanswered == {"~2": "n2"}
