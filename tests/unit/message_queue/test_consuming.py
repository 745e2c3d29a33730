"""A message from its claim to its end, over a scripted gateway."""

from __future__ import annotations

import asyncio

import pytest

from rmq_core.compat import consuming
from rmq_core.compat.config import Logs
from rmq_core.errors import CleanupFailedError, GatewayContractError, MalformedMessage
from rmq_core.events import QueueEvent
from tests.unit.message_queue.by_hand import CLAIMED, Clock, Scripted, body, run, steps_of

LOGS = Logs(5, 5)


def test_a_claimed_message_emits_an_event_and_is_returned() -> None:
    told: list[QueueEvent] = []
    delivery = run(consuming.claim(body(Scripted(wait_for_message_and_move=CLAIMED), told=told)))
    assert (delivery.message, delivery.token) == ("payload", "job:7.abc")
    assert steps_of(told) == ["claim/success"]


def test_an_empty_claim_emits_an_event() -> None:
    told: list[QueueEvent] = []
    assert run(consuming.claim(body(Scripted(wait_for_message_and_move=None), told=told))) is None
    assert steps_of(told) == ["claim_empty/skipped"]


def test_a_drained_queue_calls_no_gateway_and_does_not_spin() -> None:
    clock = Clock()
    drained = body(Scripted(), clock=clock)
    drained.draining = True
    assert run(consuming.claim(drained)) is None
    assert sum(clock.pauses) > 0


def test_a_failed_claim_emits_an_event_and_raises_the_original_error() -> None:
    told: list[QueueEvent] = []
    error = OSError("gateway")
    with pytest.raises(OSError, match="gateway") as caught:
        run(consuming.claim(body(Scripted(wait_for_message_and_move=error), told=told)))
    assert caught.value is error
    assert [(event.operation, event.error) for event in told] == [("claim", error)]


@pytest.mark.parametrize("claimed", ["plain", b"plain"])
def test_a_gateway_whose_claims_expire_must_return_a_token(claimed: object) -> None:
    with pytest.raises(GatewayContractError, match="must return ClaimedMessage"):
        run(consuming.claim(body(Scripted(wait_for_message_and_move=claimed))))


@pytest.mark.parametrize("claimed", [7, ("x",), {}])
def test_a_claim_of_another_type_is_a_broken_contract(claimed: object) -> None:
    with pytest.raises(GatewayContractError, match=r"wait_for_message_and_move\(\) must return"):
        run(consuming.claim(body(Scripted(wait_for_message_and_move=claimed))))


def test_strict_envelopes_refuse_a_message_without_one() -> None:
    with pytest.raises(MalformedMessage):
        run(consuming.claim(body(Scripted(wait_for_message_and_move=CLAIMED), strict_envelopes=True)))


@pytest.mark.parametrize(
    ("logs", "verb", "events"),
    [
        (Logs(0, 0), "remove_message", ["ack/success"]),
        (Logs(None, 0), "move_message", ["completed/success", "ack/success"]),
    ],
)
def test_a_success_removes_the_message(logs: Logs, verb: str, events: list[str]) -> None:
    told: list[QueueEvent] = []
    gateway = Scripted(wait_for_message_and_move=CLAIMED, **{verb: True})
    queue = body(gateway, told=told, logs=logs)
    run(consuming.succeed(queue, run(consuming.claim(queue)), 0))
    assert steps_of(told)[1:] == events
    assert gateway.calls[1][-1] == "job:7.abc"


def test_a_log_is_trimmed_after_each_move() -> None:
    gateway = Scripted(wait_for_message_and_move=CLAIMED, move_message=True, trim_queue=None)
    queue = body(gateway, logs=LOGS)
    run(consuming.succeed(queue, run(consuming.claim(queue)), 0))
    assert gateway.calls[-1] == ("trim_queue", "q::completed", 5)


def test_a_log_that_cannot_be_trimmed_fails_nothing() -> None:
    told: list[QueueEvent] = []
    gateway = Scripted(wait_for_message_and_move=CLAIMED, move_message=True, trim_queue=OSError())
    queue = body(gateway, told=told, logs=LOGS)
    with pytest.warns(RuntimeWarning, match="could not be trimmed"):
        run(consuming.succeed(queue, run(consuming.claim(queue)), 0))
    assert steps_of(told)[1:] == ["trim_failed/failure", "completed/success", "ack/success"]


def test_a_success_that_comes_too_late_warns() -> None:
    told: list[QueueEvent] = []
    queue = body(Scripted(wait_for_message_and_move=CLAIMED, remove_message=False), told=told)
    with pytest.warns(RuntimeWarning, match="lease"):
        run(consuming.succeed(queue, run(consuming.claim(queue)), 0))
    assert steps_of(told)[1:] == ["ack/skipped", "stale_lease_ack/skipped"]


def test_a_success_that_cannot_be_stored_raises_with_its_cause() -> None:
    told: list[QueueEvent] = []
    error = OSError("away")
    queue = body(Scripted(wait_for_message_and_move=CLAIMED, remove_message=error), told=told)
    with pytest.raises(CleanupFailedError) as caught:
        run(consuming.succeed(queue, run(consuming.claim(queue)), 0))
    assert (caught.value.__cause__, caught.value.queue, caught.value.operation) == (error, "q", "ack")
    assert steps_of(told)[1:] == ["cleanup_failed/failure"]


def test_a_failure_also_removes_the_message_and_emits_its_event_first() -> None:
    told: list[QueueEvent] = []
    gateway = Scripted(wait_for_message_and_move=CLAIMED, move_message=True, trim_queue=None)
    queue, error = body(gateway, told=told, logs=LOGS), ZeroDivisionError()
    run(consuming.fail(queue, run(consuming.claim(queue)), error, 0))
    assert steps_of(told)[1:] == ["failed/failure", "nack/success"]
    assert (told[1].error, told[1].destination_queue) == (error, "q::failed")


def test_a_failed_cleanup_after_a_failure_emits_an_event_and_does_not_raise() -> None:
    told: list[QueueEvent] = []
    queue = body(Scripted(wait_for_message_and_move=CLAIMED, remove_message=OSError()), told=told)
    with pytest.warns(RuntimeWarning, match="could not be settled"):
        run(consuming.fail(queue, run(consuming.claim(queue)), ZeroDivisionError(), 0))
    assert steps_of(told)[1:] == ["failed/failure", "cleanup_failed/failure"]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, asyncio.CancelledError])
def test_an_interrupt_during_the_cleanup_after_a_failure_does_not_hide_the_failure(
    interruption: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    queue, error = body(Scripted(wait_for_message_and_move=CLAIMED, remove_message=interruption())), ZeroDivisionError()
    with pytest.raises(interruption) as caught:
        run(consuming.fail(queue, run(consuming.claim(queue)), error, 0))
    assert caught.value.__cause__ is error
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is error


@pytest.mark.parametrize("answer", [None, 1, "yes"])
def test_a_gateway_that_does_not_return_whether_it_settled_breaks_its_contract(answer: object) -> None:
    queue = body(Scripted(wait_for_message_and_move=CLAIMED, remove_message=answer))
    with pytest.raises(CleanupFailedError) as caught:
        run(consuming.succeed(queue, run(consuming.claim(queue)), 0))
    assert isinstance(caught.value.__cause__, GatewayContractError)


def test_a_callback_that_raises_has_no_further_effect() -> None:
    def fail(_: QueueEvent) -> None:
        raise ZeroDivisionError

    queue = body(Scripted(wait_for_message_and_move=CLAIMED), on_event=fail)
    with pytest.warns(RuntimeWarning, match="on_event raised ZeroDivisionError"):
        assert run(consuming.claim(queue)).message == "payload"


def test_an_interruption_in_a_callback_goes_through() -> None:
    def interrupt(_: QueueEvent) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(consuming.claim(body(Scripted(wait_for_message_and_move=CLAIMED), on_event=interrupt)))
