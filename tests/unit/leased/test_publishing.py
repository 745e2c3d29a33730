from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rmq_core.discipline.leased.operations.publishing import publish, publish_many
from rmq_core.envelope import codec
from rmq_core.envelope.payloads import decode_payload, digest
from rmq_core.errors import (
    ConfigurationError,
    NotDurable,
    PayloadError,
    QueueFull,
    QueueUnavailable,
    ScriptFailed,
)
from rmq_core.exchange import Call, Sleep
from rmq_core.policy import Durability, Overflow
from rmq_core.reports import PublishReport
from tests.unit.leased.by_hand import asked, drive, engine, result, step

WINDOW = {"dedup": True, "dedup_window": 60}


def bodies(call: Call) -> list[bytes]:
    """Return the bodies in a publish call."""
    return list(call.given["messages"])


def sent(call: Call) -> list[Any]:
    """Return the payloads in a publish call, in order."""
    parts = [codec.split(b"0 1 0 " + body) for body in bodies(call)]
    return [decode_payload(part.kind, part.payload) for part in parts]


def test_a_registration_that_a_full_server_refused_is_repeated_by_the_next_call() -> None:
    core = engine(registered=False)
    result(publish(core, "x"), QueueFull("OOM"), b"accepted 0")
    assert not core.registered
    assert result(publish_many(core, ["x"]), 1, b"accepted 0").accepted == 1
    assert core.registered


def test_a_registration_that_fails_for_another_reason_stops_the_publish() -> None:
    core = engine(registered=False)
    with pytest.raises(QueueUnavailable):
        drive(publish(core, "x"), [QueueUnavailable("gone")])
    assert not core.registered


def test_a_text_its_bytes_and_its_json_value_are_no_duplicates() -> None:
    core = engine(**WINDOW)
    keys = {asked(publish(core, payload), b"accepted 0 1")[0].given["markers"] for payload in ("[1]", b"[1]", [1])}
    assert len(keys) == 3


@pytest.mark.parametrize("dedup_key", ["k", b"k", lambda payload: payload["id"]])
def test_a_key_of_the_caller_goes_before_that_of_the_queue(dedup_key: Any) -> None:
    core = engine(dedup_key=lambda _: "other", dedup_window=5)
    (call,) = asked(publish(core, {"id": "k"}, dedup_key=dedup_key), b"accepted 0 1")
    assert call.given["markers"] == (core.keys.dedup(digest("key", b"k")),)
    (call,) = asked(publish(core, {"id": "k"}), b"accepted 0 1")
    assert call.given["markers"] == (core.keys.dedup(digest("key", b"other")),)


@pytest.mark.parametrize(
    ("dedup_key", "words"),
    [
        ("", "is empty"),
        (b"", "is empty"),
        (5, "not int"),
        (lambda _: None, "not NoneType"),
        ("\ud800", "lone surrogate"),
    ],
)
def test_an_invalid_key_is_refused_before_anything_is_sent(dedup_key: Any, words: str) -> None:
    with pytest.raises(PayloadError, match=f"^dedup_key .*{words}"):
        next(publish(engine(), "x", dedup_key=dedup_key))


def test_a_wrong_delay_is_refused_before_anything_is_sent() -> None:
    for operation in (publish(engine(), "x", delay=-1), publish_many(engine(), ["x"], delay=True)):
        with pytest.raises(ConfigurationError, match="delay must be"):
            next(operation)  # type: ignore[call-overload]


def test_an_answer_that_the_script_does_not_give_is_an_error() -> None:
    with pytest.raises(ScriptFailed, match="superseded"):
        drive(publish(engine(), "x"), [b"superseded"])


def test_a_blocked_publish_tries_again_at_growing_intervals_by_the_clock_of_the_server() -> None:
    operation = publish(engine(max_ready=1, overflow=Overflow.BLOCK(2)), "x")
    call = next(operation)
    pauses = []
    for now in range(1000, 1800, 100):
        want = step(operation, b"full %d" % now)
        assert isinstance(want, Sleep)
        pauses.append(want.seconds)
        assert step(operation, None) is call
    assert pauses == [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.25, 0.25]
    with pytest.raises(StopIteration) as stop:
        operation.send(b"accepted 0")
    assert stop.value.value.accepted


def test_a_publish_waits_for_its_durability_and_reports_when_it_is_missed() -> None:
    core = engine(durability=Durability(replicas=2, timeout=0.5))
    assert asked(publish(core, "x"), (b"accepted 0", 2))[0].confirm == ("WAIT", 2, 500)
    for too_few in (1, ScriptFailed("ERR unknown command")):
        with pytest.raises(NotDurable, match=r"published in queue 'q', but .* was not confirmed"):
            drive(publish(core, "x"), [(b"accepted 0", too_few)])


def test_a_full_queue_is_reported_whatever_the_replicas_confirm() -> None:
    with pytest.raises(QueueFull):
        drive(publish(engine(max_ready=1, durability=Durability()), "x"), [(b"full 5", 0)])


def test_a_publisher_stamps_its_further_messages_with_the_time_the_server_returned() -> None:
    payloads = [*map(str, range(5_000)), {"not": "alike"}, *map(str, range(3_000))]
    told_at = [[b"accepted 0 @1700000000001"] * 4, [b"accepted 0 @1700000000001"] * 3 + [b"accepted 0"], b"accepted 0"]
    _, wants = drive(publish_many(engine(), payloads), told_at)
    calls = [call for want in wants for call in getattr(want, "calls", [want])]
    assert [call.given["stamp_ms"] for call in calls] == [0] * 4 + [1_700_000_000_001] * 5
    assert not any(body.startswith(b"0 17") for call in calls[:4] for body in bodies(call))
    assert all(body.startswith(b"0 1700000000001 0 ") for call in calls[4:] for body in bodies(call))


def test_an_endless_iterable_is_read_one_write_at_a_time() -> None:
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield "x"

    operation = publish_many(engine(), endless())
    next(operation)
    assert read == 4000
    step(operation, [b"accepted 0"] * 4)
    assert read == 8000


def test_a_chunk_holds_at_most_four_mebibytes_unless_one_message_is_larger() -> None:
    large = ["a" * (3 << 20), "b" * (1 << 20), "c" * (5 << 20), "d"]
    _, (chain,) = drive(publish_many(engine(max_payload_bytes=6 << 20), large), [[b"accepted 0"] * 4])
    assert [[text[0] for text in sent(call)] for call in chain.calls] == [["a"], ["b"], ["c"], ["d"]]


def test_a_chunk_is_never_larger_than_the_queue() -> None:
    _, (chain,) = drive(publish_many(engine(max_ready=2), "abc"), [[b"accepted 0"] * 2])
    assert [sent(call) for call in chain.calls] == [["a", "b"], ["c"]]


def test_a_refused_chunk_of_a_chain_is_resent_with_the_chunks_it_blocked() -> None:
    core = engine(max_ready=1, overflow=Overflow.BLOCK(5))
    replies = [[b"accepted 0", b"full 1000", b"unchained"], b"full 1000", None, b"accepted 0", b"accepted 0"]
    report, wants = drive(publish_many(core, "abc"), replies)
    chain = wants[0]
    assert wants[1:] == [chain.calls[1], Sleep(0.005), chain.calls[1], chain.calls[2]]
    assert report.accepted == 3
    assert list(report.ids) == [codec.split(b"0 1 0 " + bodies(call)[0]).id for call in chain.calls]


def test_an_error_states_what_was_accepted_before_it() -> None:
    with pytest.raises(QueueFull) as full:
        drive(
            publish_many(engine(max_ready=1), "abcd"),
            [[b"accepted 0", b"accepted 0", b"full 1000", b"unchained"], b"full 1000"],
        )
    report = full.value.report
    assert isinstance(report, PublishReport)
    assert report.accepted == len(report.ids) == 2


def test_a_failed_chunk_of_a_chain_states_what_was_accepted_before_it() -> None:
    with pytest.raises(ScriptFailed, match="odd") as failed:
        drive(publish_many(engine(max_ready=1), "abc"), [[b"accepted 0", ScriptFailed("odd"), b"unchained"]])
    assert isinstance(failed.value.report, PublishReport)
    assert failed.value.report.accepted == 1


def test_a_lost_server_states_what_was_accepted_before_it() -> None:
    with pytest.raises(QueueUnavailable) as gone:
        drive(publish_many(engine(), ["x"] * 4001), [[b"accepted 0"] * 4, QueueUnavailable("gone")])
    assert isinstance(gone.value.report, PublishReport)
    assert gone.value.report.accepted == 4000


def test_with_durability_each_chunk_is_confirmed_before_the_next_is_sent() -> None:
    core = engine(durability=Durability(1))
    operation = publish_many(core, ["x"] * 2500)
    report, wants = drive(operation, [(b"accepted 0", 1)] * 3)
    assert [len(bodies(want)) for want in wants] == [1000, 1000, 500]
    assert report.accepted == 2500
    with pytest.raises(NotDurable) as unsure:
        drive(publish_many(core, ["x"] * 2500), [(b"accepted 0", 1), (b"accepted 0", 0)])
    assert isinstance(unsure.value.report, PublishReport)
    assert unsure.value.report.accepted == 2000
