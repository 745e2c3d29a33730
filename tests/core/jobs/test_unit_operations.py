from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

from rmq_core.exchange import Exchange
from rmq_core.jobs import JobsConfig, publishing, worker
from rmq_core.jobs.state import JobsEngine, JobsKeys
from rmq_core.jobs.worker import Delivery

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


def test_a_job_is_sent_with_producer_and_id_where_the_server_deduplicates_resends() -> None:
    one = engine()
    job, (call,) = drive(publishing.add(one, "j", 1), [b"accepted"])
    assert (call.slot, call.given["producer"], call.given["jobs"][0]) == (False, one.producer, job.id)


@pytest.mark.parametrize("options", [{"delay": 1}, {"job_id": "a"}], ids=["delayed", "an id of the caller's choice"])
def test_a_job_whose_resend_the_server_cannot_recognize_is_sent_with_a_call_slot(options: dict[str, Any]) -> None:
    _, (call,) = drive(publishing.add(engine(), "j", **options), [b"accepted"])
    assert (call.slot, call.script.name) == (True, "jobs/add")
    assert drive(publishing.add(engine(False), "j"), [b"accepted"])[1][0].script.name == "jobs/add"


@pytest.mark.parametrize("native", [True, False])
def test_a_worker_reads_with_the_claim_option_where_the_server_supports_it(native: bool) -> None:
    _, (want,) = drive(worker.listen(engine(native), "w", 5, 1000), [None])
    assert ("CLAIM" in want.args) == native


@pytest.mark.parametrize(
    "reply",
    [[[b"s", [[b"1-0", [b"e", b"x"]]]]], {b"s": [[b"1-0", [b"e", b"x"]]]}, [b"s", [[b"1-0", [b"e", b"x"]]]]],
    ids=["RESP2", "a dict", "RESP3, flat"],
)
def test_entries_are_parsed_in_the_reply_formats_of_both_protocols(reply: Any) -> None:
    assert drive(worker.listen(engine(), "w", 5, 1000), [reply])[0] == [Delivery("1-0", b"x")]
