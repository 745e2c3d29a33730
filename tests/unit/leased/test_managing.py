from __future__ import annotations

from typing import Any

import pytest

from rmq_core.discipline.leased.operations.managing import (
    cancel,
    forget,
    pause,
    purge,
    redrive,
    redrive_some,
    release_unanswered,
    resume,
)
from rmq_core.envelope.payloads import digest
from rmq_core.errors import ConfigurationError, PayloadError, QueueFull, QueueUnavailable, ScriptFailed
from rmq_core.events import Operation, QueueEvent
from tests.unit.leased.by_hand import asked, counted, drive, engine, envelope, envelopes, given, result, scripts

TAKEN = b"taken 9.n1 5000 1 0 0 0 0 me"


def test_all_dead_letters_are_redriven_a_thousand_at_a_time() -> None:
    events: list[QueueEvent] = []
    moved, wants = drive(redrive(engine(on_event=events.append)), [b"redriven 1000", b"redriven 20", b"redriven 0"])
    assert moved == 1020
    assert [want.given["most"] for want in wants] == [1000, 1000, 1000]
    assert counted(events) == [(Operation.REDRIVE, 1020)]


def test_a_redrive_with_a_limit_stops_there() -> None:
    moved, wants = drive(redrive(engine(), 1500), [b"redriven 1000", b"redriven 500"])
    assert moved == 1500
    assert [want.given["most"] for want in wants] == [1000, 500]


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


def test_chosen_dead_letters_are_found_by_their_ids_and_the_oldest_goes_first() -> None:
    events: list[QueueEvent] = []
    letters = envelopes(3)
    moved, (scan, move) = drive(
        redrive_some(engine(on_event=events.append), iter(["m2", "m0"])), [letters, b"redriven 2"]
    )
    assert moved == 2
    assert scan.given["key"] == engine().keys.dead
    assert move.given["letters"] == (letters[2], letters[0])
    assert counted(events) == [(Operation.REDRIVE, 2)]


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


@pytest.mark.parametrize(
    ("target", "keys", "kind"),
    [
        ("ready", [b"ready", b"delayed"], "ready"),
        ("isolated", [b"delayed"], "isolated"),
        ("delayed", [b"delayed"], "delayed"),
        ("dead", [b"dead"], "list"),
        ("completed", [b"completed"], "list"),
        ("failed", [b"failed"], "list"),
    ],
)
def test_a_purge_sends_the_keys_and_their_kinds(target: str, keys: list[bytes], kind: str) -> None:
    removed, (call,) = drive(purge(engine(), target), [b"removed 7"])
    assert removed == 7
    assert call.keys == tuple(b"rmq:{q}:" + key for key in keys)
    assert call.given["kind"] == kind
    assert call.slot


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


@pytest.mark.parametrize(("operation", "on"), [(pause, "1"), (resume, "0")])
def test_pausing_and_resuming_are_one_call(operation: Any, on: str) -> None:
    returned, (call,) = drive(operation(engine()), [b"paused"])
    assert returned is None
    assert scripts([call]) == ["pause"]
    assert call.given["paused"] == on


def test_a_cancelled_message_is_found_by_its_id_and_removed_by_its_envelope() -> None:
    wanted = envelope("x", "wanted")
    found, (scan, removal) = drive(cancel(engine(), "wanted"), [[envelope("y", "want"), wanted], b"removed 1"])
    assert found is True
    assert scripts([scan, removal]) == ["scan", "cancel"]
    assert removal.given["key"] == scan.given["key"] == engine().keys.ready
    assert given(removal, "kind", "window_ms", "messages") == ["newest", 3_600_000, (wanted,)]


def test_a_delayed_message_is_cancelled_too() -> None:
    wanted = envelope("x", "wanted")
    found, wants = drive(cancel(engine(), "wanted"), [[], [wanted], b"removed 1"])
    assert found is True
    assert wants[1].given["key"] == wants[2].given["key"] == engine().keys.delayed
    assert given(wants[2], "kind", "window_ms", "messages") == ["zset", 3_600_000, (wanted,)]


def test_a_message_that_is_neither_ready_nor_delayed_is_not_cancelled() -> None:
    assert result(cancel(engine(), "wanted"), envelopes(3), []) is False


def test_a_message_claimed_between_finding_and_removing_is_not_cancelled() -> None:
    assert result(cancel(engine(), "wanted"), [envelope("x", "wanted")], b"removed 0", []) is False


def test_a_long_queue_is_searched_in_slices_that_overlap() -> None:
    wants = asked(cancel(engine(), "wanted"), envelopes(1000), envelopes(1000), envelopes(999), [])
    assert [given(want, "first", "last") for want in wants] == [[-1000, -1], [-1900, -901], [-2800, -1801], [-1000, -1]]


@pytest.mark.parametrize("message_id", [5, b"m", None])
def test_an_id_that_publish_never_returned_is_refused(message_id: Any) -> None:
    with pytest.raises(ConfigurationError, match="message_id must be the str that publish returned"):
        next(cancel(engine(), message_id))


@pytest.mark.parametrize(("reply", "known"), [(b"removed 1", True), (b"removed 0", False)])
@pytest.mark.parametrize("dedup_key", ["k", b"k"])
def test_a_deduplication_key_is_forgotten(dedup_key: str | bytes, reply: bytes, known: object) -> None:
    found, (call,) = drive(forget(engine(), dedup_key), [reply])
    assert found is known
    assert call.given == {"key": engine().keys.dedup(digest("key", b"k")), "kind": "string"}


@pytest.mark.parametrize("dedup_key", ["", b"", 5, None, "\ud800"])
def test_a_key_that_no_message_can_have_is_refused(dedup_key: Any) -> None:
    with pytest.raises(PayloadError, match=r"^dedup_key "):
        next(forget(engine(), dedup_key))


def test_without_unanswered_claims_closing_releases_nothing() -> None:
    assert asked(release_unanswered(engine())) == []


def test_every_unanswered_claim_that_was_granted_is_released() -> None:
    core = engine()
    core.unanswered = {"~1": "n1", "job": "n2"}
    wants = asked(release_unanswered(core), TAKEN, b"returned 1 0", b"lost")
    assert scripts(wants) == ["adopt", "give_back", "adopt"]
    assert wants[1].given["verb"] == "release"
    assert [want.given["lease_id"] for want in wants] == ["~1", "~1", "job"]
    assert [wants[0].given["nonce"], wants[1].given["token"], wants[2].given["nonce"]] == ["n1", "9.n1", "n2"]
    assert core.unanswered == {}


def test_a_lost_unanswered_claim_is_no_error() -> None:
    core = engine()
    core.unanswered = {"~1": "n1", "~2": "n2"}
    assert scripts(asked(release_unanswered(core), TAKEN, b"lost", b"lost")) == ["adopt", "give_back", "adopt"]
    assert core.unanswered == {}


def test_unanswered_claims_are_kept_during_an_outage_of_redis() -> None:
    core = engine()
    core.unanswered = {"~1": "n1", "~2": "n2"}
    with pytest.raises(QueueUnavailable):
        drive(release_unanswered(core), [b"lost", QueueUnavailable("gone")])
    assert core.unanswered == {"~2": "n2"}
