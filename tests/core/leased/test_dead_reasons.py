"""Dead letters in groups by the reasons of their failures, and the redrive of a group."""

from __future__ import annotations

from typing import Any

from rmq_core import LeasedConfig, Match
from tests.core.leases import payloads
from tests.core.worlds import World

ONCE = LeasedConfig(max_deliveries=1)


def failing(queue: Any, reasons: dict[str, str]) -> None:
    """Make a dead letter of each payload; the first is the oldest."""
    queue.publish_many(list(reasons))
    for reason in reasons.values():
        queue.nack(queue.claim(owner="worker"), reason=reason)


def test_dead_letters_are_grouped_by_reasons_without_their_numbers_and_ids(world: World) -> None:
    queue = world.queue(config=ONCE)
    failing(
        queue,
        {
            "a": "timeout after 3.5 s on 10.0.0.7:6379",
            "b": "timeout after 12 s on 10.0.0.9:6380",
            "c": "no order 7f9c3b1a-8a53-4f0e-9b1e-aabbccddeeff",
            "d": "no order 00000000-0000-0000-0000-abcdefabcdef",
            "e": "timeout after 1 s on 10.0.0.7:6379",
        },
    )
    first, second = queue.admin.dead_reasons()
    assert (first.reason, first.count) == ("timeout after # s on #", 3)
    assert (second.reason, second.count) == ("no order #", 2)
    assert first.example == queue.admin.dead_letters()[0].id
    assert first.oldest <= second.oldest <= second.newest <= first.newest


def test_a_redrive_by_reason_takes_its_group_the_oldest_first_and_leaves_the_others(world: World) -> None:
    queue = world.queue(config=ONCE)
    failing(queue, {f"{n}": ("disk full", f"bad row {n}", f"timeout {n} s")[n % 3] for n in range(9)})
    assert queue.admin.redrive(where=Match(reason="timeout 2 s")) == 3
    assert payloads(queue.admin.peek(9)) == ["2", "5", "8"]
    assert all(message.deliveries == 0 for message in queue.admin.peek(9))
    assert queue.admin.redrive(2, where=Match(reason="bad row #")) == 2
    assert payloads(queue.admin.peek(9)) == ["2", "5", "8", "1", "4"]
    assert payloads(queue.admin.dead_letters(9)) == ["7", "6", "3", "0"]
    assert queue.admin.redrive(where=Match(reason="timeout # s")) == 0


def test_reasons_that_were_cut_off_form_one_group_that_selects_them(world: World) -> None:
    queue = world.queue(config=ONCE)
    failing(queue, {str(n): f"row {'9' * n} is wrong: {'very long text ' * 20}" for n in range(1, 6)})
    (group,) = queue.admin.dead_reasons()
    assert group.count == 5
    assert queue.admin.redrive(where=Match(reason=group.reason)) == 5
