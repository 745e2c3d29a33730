from __future__ import annotations

import time
from typing import Any

import pytest

from rmq_core.errors import ConsumerTaken
from rmq_core.kernel.base import tools_of
from rmq_core.reports import ConsumerRegistration
from tests.core.worlds import World

LONG = 60


def register_consumer(queue: Any, run: str, stream: str, **more: Any) -> ConsumerRegistration:
    entered: ConsumerRegistration = tools_of(queue).register_consumer(
        "c", run=run, stream=stream, **{"alive": LONG, **more}
    )
    return entered


def test_a_name_in_use_is_refused_to_another_stream(world: World) -> None:
    queue = world.queue()
    register_consumer(queue, "run 1", "s1")
    with pytest.raises(ConsumerTaken, match="'c' is used by another run") as refused:
        register_consumer(queue, "run 2", "s2")
    assert 0 < refused.value.left <= LONG
    assert tools_of(queue).register_consumer("another", run="run 2", stream="s2", alive=LONG) == (0, None, 0)


def test_a_restart_of_the_same_stream_takes_the_name_at_once_and_the_former_run_is_refused(world: World) -> None:
    queue = world.queue()
    register_consumer(queue, "run 1", "s1", finished=3)
    assert register_consumer(queue, "run 2", "s1") == (3, None, 0)
    with pytest.raises(ConsumerTaken):
        tools_of(queue).renew_consumer("c", run="run 1", stream="s1", alive=LONG)


def test_another_stream_takes_the_name_of_a_silent_run_and_receives_its_state(world: World) -> None:
    queue = world.queue()
    register_consumer(queue, "run 1", "s 1", alive=0.05, finished=7)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            entered = register_consumer(queue, "run 2", "s2")
            break
        except ConsumerTaken:
            time.sleep(0.02)
    assert entered == (0, "s 1", 7)
    assert register_consumer(queue, "run 2", "s2") == (0, "s 1", 7), "entering again says the same"


def test_renewing_keeps_the_name_and_the_finished_number_never_decreases(world: World) -> None:
    queue = world.queue()
    register_consumer(queue, "run 1", "s1", alive=0.001)
    assert tools_of(queue).renew_consumer("c", run="run 1", stream="s1", alive=LONG, finished=5).finished == 5
    assert tools_of(queue).renew_consumer("c", run="run 1", stream="s1", alive=LONG, finished=4).finished == 5
    with pytest.raises(ConsumerTaken):
        register_consumer(queue, "run 2", "s2")


def test_a_record_is_forgotten_after_a_month(world: World) -> None:
    register_consumer(world.queue(), "run 1", "s1")
    (key,) = [key for key in world.client.keys("rmq:*") if b":consumer:" in key]
    assert 29 < world.client.ttl(key) / 86400 <= 30
