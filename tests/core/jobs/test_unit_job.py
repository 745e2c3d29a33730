from __future__ import annotations

from typing import Any

import pytest

from rmq_core import ConfigurationError, MalformedMessage, exponential
from rmq_core.envelope import codec
from rmq_core.envelope.codec import message_of
from rmq_core.envelope.payloads import PayloadLimits
from rmq_core.jobs.config import JobsConfig, WorkerConfig
from rmq_core.jobs.job import Job, check_id, encode_data, encode_options, job_of
from rmq_core.jobs.state import JobsEngine, JobsKeys
from rmq_core.jobs.worker import Delivery, FailedJob, Runner


def envelope(data: Any, options: bytes = b"", deliveries: int = 0, history: bytes = b"") -> bytes:
    kind, raw = encode_data(data, PayloadLimits())
    return b"%d 1000 %d %b%b" % (deliveries, len(history), history, codec.body("id", kind, raw, options))


@pytest.mark.parametrize("data", [None, True, 0, 1.5, "", "a b", b" 1 ", {}, [{"a": [None]}]])
def test_a_job_is_restored_from_its_envelope(data: Any) -> None:
    options = encode_options("name", 3, exponential(1, 2, 0.5))
    assert job_of(envelope(data, options)) == Job("id", "name", data, 1, 1000, 3, exponential(1, 2, 0.5))


def test_the_attempt_number_counts_failures_and_also_deliveries_that_no_worker_settled() -> None:
    assert job_of(envelope(1, deliveries=2), delivered=3).attempt == 6


def test_a_job_lists_the_failures_of_its_attempts() -> None:
    history = b"nack\t1000\tw\tno\nexpired\t2000\tw\t\n"
    assert [failure.reason for failure in job_of(envelope("a b", history=history)).history] == ["no", ""]


def test_the_envelope_of_a_job_is_a_valid_message_envelope() -> None:
    message = message_of(envelope({"a": 1}, encode_options("n", None, None)))
    assert (message.payload, message.headers) == ({"a": 1}, {"rmq-name": "n"})


@pytest.mark.parametrize("damaged", [b"", b"x", b"0 1 0 id j9 {}", b"0 1 0 id", b"0 x 0 id j0 {}", b"0 1 0 id j0 {",
                                     b"0 1 0 id q0 x"])  # fmt: skip
def test_a_damaged_envelope_is_reported(damaged: bytes) -> None:
    with pytest.raises(MalformedMessage):
        job_of(damaged)


@pytest.mark.parametrize("job_id", ["", "a b", "a\n", "x" * 513, 5, "{x}"])
def test_an_invalid_id_is_refused(job_id: Any) -> None:
    with pytest.raises(ConfigurationError, match="job_id"):
        check_id(job_id)


@pytest.mark.parametrize(("attempts", "backoff"), [(0, None), (True, None), ("1", None), (None, object())])
def test_an_option_that_cannot_be_stored_is_refused(attempts: Any, backoff: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"attempts|backoff"):
        encode_options("n", attempts, backoff)


def test_a_name_must_be_text() -> None:
    with pytest.raises(ConfigurationError, match="name"):
        encode_options(5, None, None)  # type: ignore[arg-type]


async def test_a_worker_retries_a_job_whose_data_only_a_later_version_can_read() -> None:
    body = b'j1 z48 {"rmq-attempts":"2","rmq-backoff":"60.0 60.0 0"}?'
    runner = Runner(lambda job: job, WorkerConfig(), JobsEngine(JobsKeys("q"), JobsConfig()))
    first = await runner.run(Delivery("1-0", b"0 1764000000000 0 " + body), print)
    assert isinstance(first, FailedJob)
    assert (first.job_id, first.verdict.attempts, first.verdict.delay_s) == ("j1", 1, 60.0)
    assert first.verdict.reason.startswith("UnknownPayloadKind: a stored message has the unknown payload kind 'z'")
    last = await runner.run(Delivery("1-0", b"0 1764000000000 0 " + body, before=1), print)
    assert isinstance(last, FailedJob)
    assert (last.verdict.attempts, last.verdict.delay_s) == (2, None)
