"""The operations of a reliable queue, driven by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rmq_core import LeaseLost, QueueFull, QueueUnavailable
from rmq_core.discipline.reliable.config import ReliableConfig
from rmq_core.discipline.reliable.engine import ReliableEngine
from rmq_core.discipline.reliable.keys import ReliableKeys
from rmq_core.discipline.reliable.operations import claiming, managing, publishing, reaping, settling
from rmq_core.errors import ScriptFailed
from rmq_core.exchange import Call, Command, Exchange, Sleep, Wait
from rmq_core.messages import Lease
from tests.unit.leased.by_hand import asked, drive, envelope, result, step

KEYS = ReliableKeys("q")
EMPTY = [b"empty 0 5000", []]
HELD = Lease("q", "~1", "w", 2, 5000, "t", envelopes=[envelope("a", "m0"), envelope("b", "m1")])


@pytest.fixture
def engine() -> ReliableEngine:
    return ReliableEngine(KEYS, ReliableConfig(worker="w"), registered=True)


def test_the_first_call_registers_the_name_of_the_queue_for_tools(engine: ReliableEngine) -> None:
    engine.registered = False
    wants = asked(publishing.publish(engine, "a"), 1, 1, b"accepted 1")
    assert wants[:2] == [
        Command(("SADD", b"rmq:queues", "q"), aside=True),
        Command(("SADD", b"rmq:queues:reliable", "q"), aside=True),
    ]
    assert engine.registered


def test_a_full_server_does_not_keep_consumers_from_claiming(engine: ReliableEngine) -> None:
    engine.registered = False
    assert result(claiming.claim(engine), QueueFull("full"), EMPTY) is None
    assert not engine.registered


def test_a_waiting_claim_moves_from_the_queue_into_its_own_list(engine: ReliableEngine) -> None:
    moved = [b"claimed 1000", [envelope("a", "m0")]]
    lease, wants = drive(claiming.claim(engine, wait=9), [[b"empty 5000 9000", []], (b"entry", moved)])
    assert isinstance(wants[1], Wait)
    assert (wants[1].wake, wants[1].into, wants[1].block_ms) == (KEYS.queue, KEYS.processing("w"), 5000)
    assert wants[1].call.given["wait_end"] == 9000
    assert lease is not None
    assert (lease.message.payload, lease.deadline_ms) == ("a", 601_000)


def test_a_server_that_refused_to_block_is_not_asked_to_block_again_at_once(engine: ReliableEngine) -> None:
    exchange = claiming.claim(engine, wait=9)
    next(exchange)
    step(exchange, [b"empty 5000 9000", []])
    pause = step(exchange, (QueueFull("full"), [b"empty 4990 9000", []]))
    assert pause == Sleep(0.25)
    assert isinstance(step(exchange, None), Wait)


def test_messages_reaped_before_the_reply_to_a_resend_are_claimed_again(engine: ReliableEngine) -> None:
    gone = [b"claimed 1000", []]
    lease, wants = drive(claiming.claim(engine), [gone, [b"claimed 2000", [envelope("a")]]])
    assert lease is not None
    assert wants[0].given["token"] != wants[1].given["token"] == lease.token


@pytest.mark.parametrize("error", [QueueUnavailable("gone"), KeyboardInterrupt()])
def test_a_claim_without_a_reply_is_resumed_by_the_next(engine: ReliableEngine, error: BaseException) -> None:
    first = claiming.claim(engine)
    token = next(first).given["token"]  # type: ignore[union-attr]
    with pytest.raises(type(error)):
        first.throw(error)
    (again,) = asked(claiming.claim(engine), EMPTY)
    assert (again.given["token"], again.given["mode"]) == (token, "again")
    assert engine.unanswered == {}


def test_a_refused_claim_is_forgotten(engine: ReliableEngine) -> None:
    first = claiming.claim(engine)
    next(first)
    with pytest.raises(ScriptFailed):
        first.throw(ScriptFailed("no"))
    assert engine.unanswered == {}


def test_closing_releases_the_messages_of_a_claim_whose_reply_was_lost(engine: ReliableEngine) -> None:
    engine.unanswered["t"] = "w"
    wants = asked(settling.leave(engine), [b"claimed 1000", [envelope("a")]], b"settled s")
    assert (wants[0].given["mode"], wants[1].given["verb"]) == ("rest", "release")
    assert asked(settling.leave(engine)) == []


def test_a_failed_close_can_be_repeated(engine: ReliableEngine) -> None:
    engine.unanswered["t"] = "w"
    exchange = settling.leave(engine)
    next(exchange)
    with pytest.raises(QueueUnavailable):
        exchange.throw(QueueUnavailable("gone"))
    assert engine.unanswered == {"t": "w"}


def test_an_ack_names_the_entries_it_removes_and_their_token(engine: ReliableEngine) -> None:
    lease = Lease("q", "~1", "w", 2, 5000, "t", envelopes=HELD.envelopes)
    report, wants = drive(settling.ack(engine, lease), [b"settled ss"])
    given = wants[0].given
    assert [given[name] for name in ("token", "verb", "scope")] == ["t", "ack", "whole"]
    assert list(given["entries"]) == HELD.envelopes
    assert (report.settled, lease.state.settled) == (2, True)


def test_manually_removed_entries_do_not_count_as_settled(engine: ReliableEngine) -> None:
    lease = Lease("q", "~1", "w", 2, 5000, "t", envelopes=HELD.envelopes)
    assert result(settling.ack(engine, lease), b"settled sm").settled == 1


def test_settling_no_messages_sends_nothing(engine: ReliableEngine) -> None:
    assert result(settling.ack(engine, HELD, [])) == (0, 0, ())


def test_heartbeats_extend_only_unsettled_messages(engine: ReliableEngine) -> None:
    lease = Lease("q", "~1", "w", 2, 5000, "t", envelopes=HELD.envelopes)
    result(settling.ack(engine, lease, [lease.messages[0]]), b"settled s")
    kept, wants = drive(settling.extend_all(engine, [(lease, 5.0)]), [[b"6000"]])
    assert kept == [True]
    given = wants[0].calls[0].given
    assert (given["lease_ms"], given["timeout_ms"], given["ids"]) == (5000, 600_000, (b"m1",))
    assert result(settling.extend_all(engine, [(lease, 5.0)]), [b"lost"]) == [False]
    with pytest.raises(ScriptFailed):
        result(settling.extend_all(engine, [(lease, 5.0)]), [ScriptFailed("no")])


@pytest.mark.parametrize(
    ("entry", "known_as"),
    [
        (envelope("a", "m"), b"m"),
        (envelope("a", "m", history=b"nack\t1\tme\tno\n"), b"m"),
        (b"0 1 0 m x", b"m"),
        (b"0 1 99 m s0 a", b"0 1 99 m s0 a"),
        (b"by hand", b"by hand"),
        (b"", b""),
    ],
)
def test_an_entry_is_known_by_the_id_that_the_scripts_read_from_it(entry: bytes, known_as: bytes) -> None:
    assert settling._id_of(entry) == known_as


def test_a_lost_lease_is_marked_as_lost(engine: ReliableEngine) -> None:
    lease = Lease("q", "~1", "w", 2, 5000, "t", envelopes=HELD.envelopes)
    with pytest.raises(LeaseLost):
        result(settling.nack(engine, lease), b"lost")
    assert lease.lost


def test_a_reaper_goes_through_all_workers_and_all_parts_of_their_lists(engine: ReliableEngine) -> None:
    parts = [b"reaped 3 1 0 7", b"reaped 2 0 1 -1", b"reaped 1 0 0 -1"]
    reaped, wants = drive(reaping.reap(engine, 5, 3), [[b"w1", b"idle", "w2"], [b"w1", b"w2"], *parts, []])
    assert reaped == (6, 1, 1)
    assert wants[1].given["names"] == ("w1", "idle", "w2")
    reaps = [want.given for want in wants[2:] if isinstance(want, Call)]
    assert [(given["worker"], given["timeout_ms"], given["offset"]) for given in reaps] == [
        ("w1", 5000, 0),
        ("w1", 5000, 7),
        ("w2", 5000, 0),
    ]
    assert wants[-1] == Command(("ZRANGE", KEYS.workers, 3, 1002))


ODD: dict[str, Callable[[ReliableEngine], Exchange[Any]]] = {
    "publish": lambda engine: publishing.publish(engine, "a"),
    "ack": lambda engine: settling.ack(engine, HELD),
    "reap": lambda engine: reaping._reap_worker(engine, "w", 1, 1),
    "purge": lambda engine: managing.purge(engine, "ready"),
    "redrive": managing.redrive,
}


@pytest.mark.parametrize("name", list(ODD))
def test_an_unknown_reply_is_not_treated_as_a_success(engine: ReliableEngine, name: str) -> None:
    with pytest.raises(ScriptFailed, match="superseded"):
        result(ODD[name](engine), b"superseded")


def test_a_superseded_claim_is_not_taken_for_an_empty_queue(engine: ReliableEngine) -> None:
    with pytest.raises(ScriptFailed, match="superseded"):
        result(claiming.claim(engine), [b"superseded", []])
