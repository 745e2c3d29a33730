from __future__ import annotations

import pickle
from typing import Any

import pytest

from rmq_core.discipline.leased.operations.publishing import publish_many
from rmq_core.discipline.leased.operations.staging import drop_staged, finish, publish_staged, stage
from rmq_core.errors import (
    ConfigurationError,
    NotDurable,
    PayloadError,
    QueueFull,
    QueueUnavailable,
    ScriptFailed,
    StageLost,
)
from rmq_core.exchange import Batch, Sleep
from rmq_core.messages import NewMessage, Stage
from rmq_core.policy import Durability, Overflow
from tests.unit.leased.by_hand import asked, drive, engine, result, scripts

PLAIN, KEYED = Stage("plain", 2, plain=True), Stage("keyed", 1, plain=False)
DIGEST = b"00" * 16


def test_chunks_of_a_stage_state_how_many_messages_precede_them() -> None:
    staged, (batch,) = drive(stage(engine(), map(str, range(2_500))), [[b"staged"] * 3])
    assert isinstance(batch, Batch)
    assert [call.given["count"] for call in batch.calls] == [0, 1000, 2000]
    assert (staged.count, staged.plain) == (2_500, True)


def test_staging_no_messages_sends_nothing() -> None:
    assert result(stage(engine(), [])).count == 0


def test_delay_and_deduplication_key_precede_the_body() -> None:
    messages = ["x", NewMessage("x", delay=2), NewMessage("x", dedup_key="k")]
    staged, (batch,) = drive(stage(engine(), messages), [[b"staged"]])
    plain, delayed, keyed = batch.calls[0].given["messages"]
    assert plain.endswith(b" s0 x")
    assert delayed.startswith(b"\x012000 - ")
    assert keyed.startswith(b"\x010 ")
    assert not staged.plain


@pytest.mark.parametrize("own", [{"delay": 2}, {"dedup_key": "k"}])
def test_a_stage_with_a_delayed_or_deduplicated_message_is_not_plain(own: dict[str, Any]) -> None:
    messages = [*map(str, range(2_000)), NewMessage("x", **own)]
    assert not result(stage(engine(), messages), [b"staged"] * 3).plain


def test_a_stage_that_holds_another_number_of_messages_is_lost() -> None:
    with pytest.raises(StageLost):
        result(stage(engine(), ["x"]), [b"lost"], b"lost", [b"dropped"])
    with pytest.raises(ScriptFailed):
        result(stage(engine(), ["x"]), [ScriptFailed("no")], [b"dropped"])


def test_messages_staged_before_a_failure_are_dropped_while_redis_answers() -> None:
    failing = (text if text != "0" else {1: "no key"} for text in map(str, range(2_500, -1, -1)))  # type: ignore[misc]
    with pytest.raises(PayloadError):
        result(stage(engine(), failing), [b"dropped"])
    with pytest.raises(QueueUnavailable):
        result(stage(engine(), ["x"]), QueueUnavailable("away"))


def test_a_chunk_that_overtook_the_one_before_it_is_sent_again() -> None:
    replies = [[b"staged", b"lost", b"lost"], b"staged", b"staged"]
    staged, wants = drive(stage(engine(), map(str, range(2_500))), replies)
    assert staged.count == 2_500
    assert [call.given["count"] for call in wants[1:]] == [1000, 2000]


def test_a_queue_that_drops_its_oldest_messages_stages_nothing() -> None:
    with pytest.raises(ConfigurationError, match="DROP_OLDEST"):
        result(stage(engine(max_ready=1, overflow=Overflow.DROP_OLDEST), ["x"]))


def test_publishing_commits_and_then_moves_until_nothing_is_left() -> None:
    replies = [
        b"committed", [b"2 1 plain", b"1 0 keyed"], b"moved 1 0 1", b"moved 1 0 0", [1, [DIGEST]], b"moved 0 1 0",
        [], b"elsewhere",
    ]  # fmt: skip
    published, wants = drive(publish_staged(engine(), [PLAIN, KEYED, Stage("none", 0, plain=True)]), replies)
    assert published
    assert scripts(wants) == ["publish_staged", "scan", "unstage", "unstage", "staged", "unstage", "scan", "unstage"]
    assert wants[0].given["elements"] == ("2 1 plain", "1 0 keyed")
    assert wants[5].given["markers"] == (engine().keys.dedup(bytes(16)),)
    assert [wants[at].given["most"] for at in (2, 5)] == [4000, 1]


def test_a_committed_publication_succeeds_although_redis_becomes_unreachable_then() -> None:
    away = QueueUnavailable("away")
    for replies in ([b"committed", away], [b"committed", [b"2 1 plain"], b"moved 1 0 1", away]):
        published, _ = drive(publish_staged(engine(), [PLAIN]), replies)
        assert published


def test_stages_that_were_already_published_are_dropped() -> None:
    published, wants = drive(publish_staged(engine(), [PLAIN], sink="s", batch=3), [b"before", [b"dropped"]])
    assert not published
    assert wants[0].given["batch"] == 3
    assert isinstance(wants[1], Batch)


@pytest.mark.parametrize(("reply", "error"), [(b"gone plain", StageLost), (b"odd", ScriptFailed)])
def test_a_refused_publication_states_why(reply: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        result(publish_staged(engine(), [PLAIN]), reply)


def test_a_publication_waits_for_room_as_long_as_it_may() -> None:
    waiting = publish_staged(engine(max_ready=1, overflow=Overflow.BLOCK(1)), [PLAIN])
    with pytest.raises(QueueFull, match="max_ready=1"):
        result(waiting, b"full 1000", None, b"full 1500", None, b"full 2000")
    patient = publish_staged(engine(max_ready=2, overflow=Overflow.BLOCK(1)), [PLAIN])
    wants = asked(patient, b"full 1000", None, b"committed", [], b"elsewhere")
    assert isinstance(wants[1], Sleep)


def test_a_publication_is_confirmed_when_the_queue_requires_durability() -> None:
    with pytest.raises(NotDurable):
        result(publish_staged(engine(durability=Durability(replicas=1)), [PLAIN]), (b"committed", 0))


def test_a_sink_needs_a_name_and_a_whole_number() -> None:
    with pytest.raises(ConfigurationError, match="sink"):
        result(publish_staged(engine(), [PLAIN], sink=""))
    with pytest.raises(ConfigurationError, match="batch"):
        result(publish_staged(engine(), [PLAIN], sink="s", batch=-1))


def test_stages_are_dropped_by_the_hundred() -> None:
    wants = asked(drop_staged(engine(), [PLAIN] * 150), [b"dropped"] * 100, [b"dropped"] * 50)
    assert [len(want.calls) for want in wants] == [100, 50]
    with pytest.raises(ScriptFailed):
        result(drop_staged(engine(), [PLAIN]), [ScriptFailed("no")])


def test_a_publication_without_a_record_is_struck_from_the_leases() -> None:
    moved, wants = drive(finish(engine(), "~+p"), [[], b"elsewhere"])
    assert moved == 0
    assert wants[1].given["publication"] == "~+p"


def test_a_chunk_of_publish_many_holds_messages_of_one_delay() -> None:
    messages = ["a", NewMessage("b", delay=1), NewMessage("c", delay=1), NewMessage("d", dedup_key="k")]
    _, (chain,) = drive(publish_many(engine(), messages), [[b"accepted 0", b"accepted 0", b"accepted 0 1"]])
    assert [(call.given["delay_ms"], call.given["count"]) for call in chain.calls] == [(0, 1), (1000, 2), (0, 1)]


def test_a_lost_stage_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(StageLost("s")))
    assert (error.stage_id, str(error)) == ("s", str(StageLost("s")))
