"""A message from its claim to its end, over a scripted gateway."""

from __future__ import annotations

import asyncio

import pytest

from rmq_core.redis_message_queue import consuming
from tests.core.redis_message_queue.by_hand import CLAIMED, Scripted, body, run


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
