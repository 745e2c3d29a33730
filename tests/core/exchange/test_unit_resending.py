"""How long a call retries: by the driver's own setting or by one for this call alone."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from redis import exceptions as redis_errors
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from rmq_core.errors import QueueUnavailable
from rmq_core.exchange import Call, Command, Exchange, Interrupted, Patience, Pipeline, Sleep, Wait, together
from rmq_core.exchange.loading import Script
from tests.core.exchange.wire import SILENCE, Connection, Rig

CALL = Call(Script("test", b"return 1", b"f" * 40, has_slot=True), (b"key",), ("arg",))
CUT = redis_errors.ConnectionError("cut")


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    made = Rig(asynchronous=request.param)
    yield made
    made.end()


def ask(rig: Rig, want: Any, patience: Patience, *replies: Any) -> Any:
    def operation() -> Generator[Any, Any, Any]:
        return (yield want)

    rig.wire.replies = list(replies)
    return rig._finish(rig.driver.run, operation(), patience)


def after(calls: int) -> Callable[[], bool]:
    """Return a function that interrupts at its nth call."""
    seen: list[int] = []
    return lambda: bool(seen.append(1)) or len(seen) >= calls


def test_an_interrupted_call_raises_the_last_failure(rig: Rig) -> None:
    with pytest.raises(QueueUnavailable, match="cut"):
        ask(rig, CALL, Patience(60, given_up=lambda: True), CUT)


def test_an_interrupt_ends_the_pause_between_two_attempts(rig: Rig) -> None:
    with pytest.raises(QueueUnavailable):
        ask(rig, CALL, Patience(600, 100, 100, given_up=after(4)), CUT, CUT, CUT)


def test_an_interrupt_ends_a_sleep(rig: Rig) -> None:
    with pytest.raises(Interrupted):
        ask(rig, Sleep(3600), Patience(0, given_up=after(2)))


def test_an_interrupt_ends_a_wait_and_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "can_read", lambda *_, **__: False)
    rig = Rig(asynchronous=False)
    with pytest.raises(Interrupted):
        ask(rig, Wait(b"wake", 60_000, CALL), Patience(0, given_up=after(3)))
    assert rig.wire.closed == 1


def test_a_hurried_interrupt_does_not_even_wait_for_a_reply_that_should_come_at_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "can_read", lambda *_, **__: False)
    with pytest.raises(Interrupted):
        ask(rig, CALL, Patience(0, given_up=after(2), hurried=True), SILENCE)
    assert rig.wire.closed == 1


@pytest.mark.parametrize("retries", [0, 2])
def test_without_a_budget_a_call_is_retried_by_the_policy_of_the_client(rig: Rig, retries: int) -> None:
    retry = (Retry if rig._loop is None else AsyncRetry)(NoBackoff(), retries)  # type: ignore[call-arg]
    rig.driver.client.connection_kwargs = {"retry": retry}
    with pytest.raises(QueueUnavailable):
        ask(rig, CALL, Patience(None), *[CUT] * (retries + 1))
    assert (len(rig.wire.sent), rig.wire.replies) == (retries + 1, [])
    if retries:
        assert ask(rig, CALL, Patience(None), CUT, b"ok") == b"ok"


def test_without_a_budget_and_a_policy_a_call_is_made_once(rig: Rig) -> None:
    with pytest.raises(QueueUnavailable):
        ask(rig, CALL, Patience(None), CUT, b"ok")
    assert len(rig.wire.sent) == 1


def calls(*names: str) -> Exchange[list[Any]]:
    got = []
    for name in names:
        got.append((yield Command((name,))))  # noqa: PERF401  a comprehension cannot yield
    return got


def test_exchanges_run_together_share_their_writes() -> None:
    both = together([calls("a", "b"), calls("c")])
    first = next(both)
    assert isinstance(first, Pipeline)
    assert [call.args for call in first.calls] == [("a",), ("c",)]
    second = both.send([1, 2])
    assert [call.args for call in second.calls] == [("b",)]  # type: ignore[union-attr]
    with pytest.raises(StopIteration) as end:
        both.send([3])
    assert end.value.value == [[1, 3], [2]]


def test_an_error_of_one_of_several_exchanges_is_raised_in_that_exchange() -> None:
    def careful() -> Exchange[str]:
        try:
            yield Command(("x",))
        except QueueUnavailable:
            return "caught"
        return "not raised"

    both = together([careful(), careful()])
    next(both)
    with pytest.raises(StopIteration) as end:
        both.send([QueueUnavailable("x"), b"ok"])
    assert end.value.value == ["caught", "not raised"]
