from __future__ import annotations

import pytest

from rmq_core import Lease, LeaseLost, QueueUnavailable
from rmq_core.discipline.streams.operations import claiming, inspecting, publishing, settling
from rmq_core.errors import QueueError, ScriptFailed
from rmq_core.exchange import Call, Wait
from rmq_core.reports import Outcome
from tests.unit.streams.by_hand import claimed, drive, engine, verbs

EMPTY = [b"empty", -1]


def held(*payloads: bytes) -> Lease:
    return drive(claiming.claim(engine()), claimed(*payloads))[0]


def settlement(call: Call) -> tuple[object, ...]:
    return tuple(call.given[name] for name in ("verb", "scope", "stale_ms", "back", "ids"))


def test_a_claim_is_one_call_and_brings_its_messages() -> None:
    lease, wants = drive(claiming.claim(engine(), max_messages=2, owner="me"), claimed(b'{"n":1}', b'{"n":2}'))
    assert verbs(wants) == ["streams/claim"]
    assert wants[0].given["token"] == lease.token
    assert (lease.count, lease.owner, lease.deadline_ms) == (2, "me", 9000)
    assert [(m.id, m.payload, m.deliveries) for m in lease.messages] == [("1-0", {"n": 1}, 1), ("2-0", {"n": 2}, 1)]


def test_no_two_leases_have_a_token_in_common() -> None:
    assert len({held(b"{}").token for _ in range(50)}) == 50


def test_a_wait_blocks_for_one_message_and_claims_in_the_same_write() -> None:
    lease, wants = drive(claiming.claim(engine(), max_messages=9, wait=0.5), EMPTY, claimed(b"{}"))
    assert verbs(wants) == ["streams/claim", "wait 500, streams/claim"]
    assert isinstance(wants[1], Wait)
    assert wants[1].by is not None
    assert wants[1].by == (
        "XREADGROUP", "GROUP", "billing", lease.token, "COUNT", 1, "BLOCK", 500, "STREAMS", "orders", ">",
    )  # fmt: skip


def test_a_wait_is_split_into_blocks_of_a_second_and_shorter_ones_when_entries_become_stale() -> None:
    found, wants = drive(claiming.claim(engine(), wait=2.2), EMPTY, [b"empty", 300], EMPTY, EMPTY)
    assert found is None
    assert [want.block_ms for want in wants if isinstance(want, Wait)] == [1000, 300, 900]


@pytest.mark.parametrize("failure", [QueueUnavailable("gone"), KeyboardInterrupt()])
def test_messages_of_a_claim_without_a_reply_are_released_before_the_next_claim(failure: BaseException) -> None:
    one = engine()
    operation = claiming.claim(one)
    token = next(operation).given["token"]  # type: ignore[union-attr]
    with pytest.raises(type(failure)):
        operation.throw(failure)
    _, wants = drive(claiming.claim(one), [b"1-0", b"2-0"], b"ss", claimed(b"{}"))
    assert verbs(wants) == ["streams/held", "streams/settle", "streams/claim"]
    assert [(want.given["group"], want.given["token"]) for want in wants[:2]] == 2 * [("billing", token)]
    assert settlement(wants[1]) == ("release", "some", 60_000, "~", (b"1-0", b"2-0"))
    assert not one.unanswered


def test_a_refused_claim_leaves_nothing_to_release() -> None:
    one = engine()
    with pytest.raises(QueueError):
        drive(claiming.claim(one), ScriptFailed("NOGROUP"))
    assert not one.unanswered


def test_closing_releases_what_was_claimed_without_a_reply() -> None:
    one = engine()
    one.unanswered.append("~a/1.2")
    assert verbs(drive(settling.give_back_unanswered(one), [])[1]) == ["streams/held"]
    assert not one.unanswered


def test_a_whole_lease_is_settled_by_the_ids_it_has_left() -> None:
    lease = held(b"{}", b"{}")
    settled, _ = drive(settling.ack(engine(), lease, [lease.messages[0]]), b"s")
    assert settled.outcomes == (Outcome.SETTLED,)
    report, wants = drive(settling.release(engine(), lease), b"s")
    assert settlement(wants[0]) == ("release", "whole", 60_000, "~", ("2-0",))
    assert report.settled == 1
    with pytest.raises(LeaseLost):
        drive(settling.ack(engine(), lease), b"lost")


def test_a_lost_lease_is_reported_as_lost() -> None:
    lease = held(b"{}")
    with pytest.raises(LeaseLost):
        drive(settling.nack(engine(), lease), b"lost")
    assert lease.lost


def test_a_request_that_arrives_late_returns_no_outcome() -> None:
    with pytest.raises(ScriptFailed, match="superseded"):
        drive(settling.ack(engine(), held(b"{}")), b"superseded")
    with pytest.raises(ScriptFailed, match="superseded"):
        drive(publishing.publish(engine(), {}), b"superseded")
    with pytest.raises(ScriptFailed, match="superseded"):
        drive(claiming.claim(engine()), [b"superseded"])
    with pytest.raises(ScriptFailed, match="superseded"):
        drive(inspecting.trim(engine()), b"superseded")


def test_heartbeats_extend_many_leases_in_one_write() -> None:
    leases = [(held(b"{}"), 5.0), (held(b"{}"), None)]
    operation = claiming.extend_all(engine(), leases)
    calls = next(operation).calls  # type: ignore[union-attr]
    assert [call.given["lease_ms"] for call in calls] == [5000, 60_000]
    assert all(isinstance(call, Call) and not call.slot for call in calls)
    with pytest.raises(StopIteration) as stop:
        operation.send([b"7000", b"lost"])
    assert stop.value.value == [True, False]


def test_a_report_states_what_was_stored_before_a_failure() -> None:
    one = engine()
    replies = (b"added " + b" ".join(b"%d-0" % n for n in range(1000)), QueueUnavailable("gone"))
    with pytest.raises(QueueUnavailable) as raised:
        drive(publishing.publish_many(one, ({} for _ in range(1500))), *replies)
    assert raised.value.report.accepted == 1000  # type: ignore[attr-defined]


def test_a_repeated_call_ends_with_the_first_part_that_is_not_full() -> None:
    total, wants = drive(inspecting.trim(engine()), b"trimmed 1000", b"trimmed 1000", b"trimmed 5")
    assert (total, len(wants)) == (2005, 3)


def test_stats_count_stale_messages_as_ready() -> None:
    reply = [10, 3, 5, 2, 8000, 6000, 99, 2, 9000]
    stats, _ = drive(inspecting.stats(engine()), reply)
    assert (stats.ready, stats.leased, stats.leases, stats.oldest_age) == (5, 3, 2, 3.0)
    assert drive(inspecting.backlog(engine()), reply)[0][:2] == (5, 3.0)
