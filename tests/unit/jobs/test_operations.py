from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

from rmq_core import LeaseLost, Unsupported
from rmq_core.discipline.jobs.engine import JobsEngine
from rmq_core.discipline.jobs.keys import JobsKeys
from rmq_core.discipline.jobs.operations import (
    adding,
    cancelling,
    claiming,
    managing,
    reading,
    settling,
    waiting,
    working,
)
from rmq_core.discipline.jobs.operations.working import Delivery, Done
from rmq_core.envelope.codec import MessageRef
from rmq_core.errors import ScriptFailed
from rmq_core.exchange import Call, Command, Exchange, Listen
from rmq_core.jobs import JobsConfig, NewJob
from rmq_core.messages import Lease
from rmq_core.reports import Outcome

R = TypeVar("R")


def engine(native: bool | None = True, **settings: Any) -> JobsEngine:
    return JobsEngine(JobsKeys("q"), JobsConfig(**settings), native, registered=True)


def drive(exchange: Exchange[R], replies: Iterable[Any]) -> tuple[R, list[Any]]:
    """Answer each request with the next reply; return the result, and the requests. Every reply must be used."""
    wants, left = [], list(replies)
    try:
        want = next(exchange)
        while True:
            wants.append(want)
            reply = left.pop(0)
            want = exchange.throw(reply) if isinstance(reply, BaseException) else exchange.send(reply)
    except StopIteration as stop:
        assert not left
        return stop.value, wants


def names(wants: list[Any]) -> list[str]:
    return [want.script.name if isinstance(want, Call) else type(want).__name__ for want in wants]


def held(count: int = 1) -> Lease:
    return Lease("q", "job", "me", count, 5000, "7.abc", named=True)


def test_the_server_version_is_queried_before_the_first_job_and_never_again() -> None:
    one = JobsEngine(JobsKeys("q"), JobsConfig())
    _, wants = drive(adding.add(one, "j"), [b"native", 1, 1, b"accepted"])
    assert names(wants) == ["jobs/prepare", "Command", "Command", "jobs/add_native"]
    assert names(drive(adding.add(one, "j"), [b"accepted"])[1]) == ["jobs/add_native"]


def test_a_server_that_is_too_old_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"XAUTOCLAIM.*6\.2"):
        drive(adding.add(engine(None), "j"), [b"unable XAUTOCLAIM"])


def test_a_job_is_sent_with_producer_and_id_where_the_server_deduplicates_resends() -> None:
    one = engine()
    job, (call,) = drive(adding.add(one, "j", 1), [b"accepted"])
    assert (call.slot, call.given["producer"], call.given["jobs"][0]) == (False, one.producer, job.id)


@pytest.mark.parametrize("options", [{"delay": 1}, {"job_id": "a"}], ids=["delayed", "an id of the caller's choice"])
def test_a_job_whose_resend_the_server_cannot_recognize_is_sent_with_a_call_slot(options: dict[str, Any]) -> None:
    _, (call,) = drive(adding.add(engine(), "j", **options), [b"accepted"])
    assert (call.slot, call.script.name) == (True, "jobs/add")
    assert drive(adding.add(engine(False), "j"), [b"accepted"])[1][0].script.name == "jobs/add"


def test_many_jobs_are_sent_in_chunks_and_runs() -> None:
    jobs = [*(NewJob("j", n) for n in range(1500)), NewJob("u", job_id="a", unique=True), NewJob("j")]
    added, wants = drive(adding.add_bulk(engine(), jobs), [b"accepted"] * 2 + [b"accepted 1", b"accepted"])
    assert names(wants) == ["jobs/add_native", "jobs/add_native", "jobs/add", "jobs/add_native"]
    assert len(added) == 1502


def test_an_answer_that_no_script_gives_is_an_error() -> None:
    for exchange in (
        adding.add(engine(), "j"), cancelling.cancel_delayed(engine(), "a"), settling.ack(engine(), held()),
        managing.redrive(engine()), managing.purge(engine(), "dead"),
    ):  # fmt: skip
        with pytest.raises(ScriptFailed):
            drive(exchange, [b"superseded"])
    with pytest.raises(ScriptFailed):
        drive(claiming.claim(engine()), [[b"superseded", [], []]])


def test_a_claim_that_waits_listens_to_the_stream_until_something_is_due() -> None:
    empty = [b"empty 1000 1200 7-1", [], []]
    lease, wants = drive(claiming.claim(engine(), wait=10), [empty, None, [b"claimed 1.x 5000 1 0", [], [b"e"]]])
    assert lease is not None
    assert lease.envelopes == [b"e"]
    assert wants[1] == Listen(("XREAD", "COUNT", 1, "BLOCK", 200, "STREAMS", JobsKeys("q").ready, "7-1"), 200)


def test_a_wait_lasts_at_most_five_seconds_and_at_most_the_requested_time() -> None:
    replies = [[b"empty 1000 0 0-0", [], []], None, [b"empty 6000 0 0-0", [], []], None, [b"empty 8000 0 0-0", [], []]]
    lease, wants = drive(claiming.claim(engine(), wait=7), replies)
    assert lease is None
    assert [want.block_ms for want in wants if isinstance(want, Listen)] == [5000, 2000]


def test_a_lost_lease_is_marked_as_lost() -> None:
    lease = held()
    with pytest.raises(LeaseLost):
        drive(settling.extend(engine(), lease), [b"lost"])
    assert lease.lost


def test_a_chunk_that_ends_the_lease_leaves_nothing_to_send_and_nothing_lost() -> None:
    lease = held(1500)
    refs = [MessageRef("job", index, "") for index in range(1500)]
    report, wants = drive(settling.ack(engine(), lease, refs), [b"settled 1000 0 0 " + b"s" * 1000])
    assert len(wants) == 1
    assert ({*report.outcomes[:1000]}, {*report.outcomes[1000:]}) == ({Outcome.SETTLED}, {Outcome.SETTLED_BEFORE})
    assert (report.settled, lease.state.lost, lease.state.settled) == (1000, False, True)


def test_a_missing_consumer_group_is_created_again() -> None:
    turn = working.turn(engine(), "w", Done.nothing(), 5)
    found, wants = drive(turn, [ScriptFailed("NOGROUP no such key"), b"native", []])
    assert (found, names(wants)) == ([], ["jobs/turn", "jobs/prepare", "jobs/turn"])


def test_another_error_of_the_server_is_not_retried() -> None:
    with pytest.raises(ScriptFailed, match="other"):
        drive(working.turn(engine(), "w", Done.nothing(), 5), [ScriptFailed("other")])


@pytest.mark.parametrize("native", [True, False])
def test_a_worker_reads_with_the_claim_option_where_the_server_supports_it(native: bool) -> None:
    _, (want,) = drive(working.listen(engine(native), "w", 5, 1000), [None])
    assert ("CLAIM" in want.args) == native


@pytest.mark.parametrize(
    "reply",
    [[[b"s", [[b"1-0", [b"e", b"x"]]]]], {b"s": [[b"1-0", [b"e", b"x"]]]}, [b"s", [[b"1-0", [b"e", b"x"]]]]],
    ids=["RESP2", "a dict", "RESP3, flat"],
)
def test_entries_are_parsed_in_the_reply_formats_of_both_protocols(reply: Any) -> None:
    assert drive(working.listen(engine(), "w", 5, 1000), [reply])[0] == [Delivery("1-0", b"x")]


def test_claimed_entries_state_their_earlier_deliveries() -> None:
    reply = [[b"s", [[b"1-0", [b"e", b"x"], 500, 2], [b"2-0", [b"e", b"y"], 0, 0]]]]
    assert [one.before for one in drive(working.listen(engine(), "w", 5, 1000), [reply])[0]] == [2, 0]


def test_a_promoter_waits_until_something_is_due_five_seconds_at_most() -> None:
    for due, block in ((b"1300", 300), (b"", 5000), (b"99999999", 5000), (b"900", 1)):
        _, wants = drive(waiting.promote_and_wait(engine()), [[1000, due, 0, [], []], None])
        assert wants[-1].block_ms == block
    _, wants = drive(waiting.promote_and_wait(engine()), [[1000, b"", 1000, [], []]])
    assert names(wants) == ["jobs/tick"]


def test_results_of_several_jobs_are_in_the_requested_order() -> None:
    entry = [[b"1-0", [b"state", b"completed", b"value", b"5"]]]
    found, wants = drive(managing.get_results(engine(), ["a", "b"]), [entry, []])
    assert (found, all(isinstance(want, Command) for want in wants)) == ([managing.JobResult(5), None], True)


def test_the_age_of_the_backlog_is_that_of_the_oldest_ready_job() -> None:
    replies = [[9000, b"", 0, [], []], [1, 0, 0, 0, 0, 9000, [b"0 4000 0 id s0 x"], [], 0]]
    assert drive(reading.backlog(engine()), replies)[0][:2] == (1, 5.0)
