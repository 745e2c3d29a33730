from __future__ import annotations

import pytest

from rmq_core.discipline.leased.operations.consumers import register_consumer, renew_consumer
from rmq_core.errors import ConfigurationError, ConsumerTaken, ScriptFailed
from tests.unit.leased.by_hand import drive, engine, given, result

WHO = {"run": "r", "stream": "s"}


def test_registering_writes_only_the_record_of_that_consumer() -> None:
    entered, (call,) = drive(register_consumer(engine(), "c", **WHO, alive=1.5, finished=2), [b"entered 2 - 0"])
    assert entered == (2, None, 0)
    assert given(call, "consumer", "run", "stream") == [engine().keys.consumer("c"), "r", "s"]
    assert given(call, "alive_ms", "remembered_ms", "finished", "enter") == [1500, 30 * 86_400_000, 2, "1"]


def test_renewing_does_not_register_a_consumer() -> None:
    stayed, (call,) = drive(renew_consumer(engine(), "c", **WHO, alive=1), [b"entered 2 old stream 7"])
    assert stayed == (2, "old stream", 7)
    assert call.given["enter"] == "0"


def test_a_name_in_use_is_refused_with_the_remaining_time() -> None:
    with pytest.raises(ConsumerTaken) as refused:
        result(register_consumer(engine(), "c", **WHO, alive=1), b"taken 2500")
    assert refused.value.left == 2.5


def test_an_unknown_reply_is_not_a_success() -> None:
    with pytest.raises(ScriptFailed):
        result(register_consumer(engine(), "c", **WHO, alive=1), b"what")


@pytest.mark.parametrize("wrong", [{"run": ""}, {"stream": "{x}"}, {"alive": 0}, {"finished": -1}])
def test_an_invalid_name_or_number_is_refused_before_anything_is_sent(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        result(register_consumer(engine(), "c", **{**WHO, "alive": 1, **wrong}))  # type: ignore[arg-type]
