"""The completed and the failed log: payloads, newest first, kept up to a length."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.redis_message_queue.behind import logged
from tests.core.redis_message_queue.handlers import fail, handle
from tests.core.redis_message_queue.worlds import World

BOTH: dict[str, Any] = {"enable_completed_queue": True, "enable_failed_queue": True}


def run(queue: Any, *payloads: Any, fails: bool = False) -> None:
    for payload in payloads:
        queue.publish(payload)
        (fail if fails else handle)(queue)


def test_successes_and_failures_are_kept_apart(world: World) -> None:
    queue = world.queue(**BOTH)
    run(queue, "good", {"also": "good"})
    run(queue, "bad", fails=True)
    assert logged(world, "completed") == [json.dumps({"also": "good"}), "good"]
    assert logged(world, "failed") == ["bad"]


def test_a_log_keeps_a_thousand_by_default(one_world: World) -> None:
    queue = one_world.queue(**BOTH)
    run(queue, *(f"m{n}" for n in range(1010)))
    assert logged(one_world, "completed") == [f"m{n}" for n in range(1009, 9, -1)]


def test_a_log_without_limit_keeps_everything(one_world: World) -> None:
    queue = one_world.queue(**BOTH, max_completed_length=None, max_failed_length=None)
    run(queue, *(f"m{n}" for n in range(1010)))
    assert len(logged(one_world, "completed")) == 1010


@pytest.mark.parametrize("kind", ["completed", "failed"])
def test_lowering_the_length_shortens_the_log_with_the_next_message(world: World, kind: str) -> None:
    fails = kind == "failed"
    run(world.queue(**BOTH, **{f"max_{kind}_length": None}), *"abcd", fails=fails)
    run(world.queue(**BOTH, **{f"max_{kind}_length": 2}), "e", fails=fails)
    assert logged(world, kind) == ["e", "d"]


def test_switching_the_failed_log_off_keeps_what_is_in_it_and_adds_nothing(world: World) -> None:
    run(world.queue(**BOTH), "old", fails=True)
    run(world.queue(), "new", fails=True)
    assert logged(world, "failed") == ["old"]
