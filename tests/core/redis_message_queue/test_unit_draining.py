from __future__ import annotations

from rmq_core.redis_message_queue import publishing
from tests.core.redis_message_queue.by_hand import Scripted, body, run


def test_draining_does_not_wait_for_a_call_that_its_own_thread_has_interrupted() -> None:
    queue = body(Scripted())
    queue.publishing.append(1)
    queue.claiming.append(1)
    assert run(publishing.drain(queue, None)) is True
