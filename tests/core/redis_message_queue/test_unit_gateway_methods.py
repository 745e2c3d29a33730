"""The methods of a gateway as exchanges with the engine's scripts: their requests, given the replies."""

from __future__ import annotations

from rmq_core.exchange import Pipeline
from rmq_core.redis_message_queue import exchanges
from tests.core.by_hand import drive
from tests.core.leased.by_hand import claimed, engine, envelope

EMPTY = [b"empty 0 9", [], []]


def test_messages_that_become_dead_letters_are_reclaimed_first_in_the_order_of_their_deadlines() -> None:
    late = [claimed()[0], [b"a"], claimed()[2]]
    head = b"7.abc h 1 0 0 me"
    pages = [[head, envelope("p", "m", 0)], [head, envelope("p", "m", 1)], [head, envelope("p", "m", 1)]]
    replies = [
        late, b"returned 1 0", [b"a", b"b", b"c"], pages[::-1],
        [b"returned 1 0 8.x b", b"returned 1 0 9.x c"], [b"returned 1 0 9.x"], EMPTY,
    ]  # fmt: skip
    lease, wants = drive(exchanges.claim(engine(max_deliveries=2), 0), replies)
    assert lease is None
    batches = [want for want in wants if isinstance(want, Pipeline)]
    assert [[call.given["lease_id"] for call in batch.calls] for batch in batches[1:]] == [["b", "c"], ["a"]]
