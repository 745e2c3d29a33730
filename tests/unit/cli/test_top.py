from __future__ import annotations

from collections import deque

from rmq_core.cli.top import spark


def test_the_bars_are_as_high_as_the_largest_value_and_show_every_message() -> None:
    assert spark(deque([0, 1, 50, 100])).plain == " ▁▄█"


def test_an_empty_queue_has_no_bars() -> None:
    assert spark(deque([0, 0])).plain == "  "
    assert spark(deque()).plain == ""
