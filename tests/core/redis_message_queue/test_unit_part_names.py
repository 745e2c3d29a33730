from __future__ import annotations

import pytest

from rmq_core.errors import ConfigurationError
from rmq_core.redis_message_queue.part_names import QueueKeyManager, QueuePart, engine_name, place


@pytest.mark.parametrize("name", ["", " ", "a\0", "a::b"])
def test_a_name_that_would_be_ambiguous_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="'name'"):
        QueueKeyManager(name)


@pytest.mark.parametrize(
    ("key", "queue", "part"),
    [
        ("orders::pending", "orders", QueuePart.PENDING),
        ("orders::processing", "orders", QueuePart.PROCESSING),
        ("orders::dlq", "orders", QueuePart.DEAD_LETTER),
        ("orders::dead_letter", "orders", QueuePart.DEAD_LETTER),
        ("{orders}::failed", "%7Borders%7D", QueuePart.FAILED),
        ("orders--completed", "orders--%", QueuePart.COMPLETED),
    ],
)
def test_a_name_maps_to_a_part_of_an_engines_queue(key: str, queue: str, part: QueuePart) -> None:
    assert place(key) == (queue, part)


def test_queues_that_differ_never_share_an_engines_queue() -> None:
    bases = ["q::", "q--", "q--::", "q%::", "{q}::", "%7Bq%7D::", "q\n::", "q%0A::", "q-%::", "q%", "q"]
    assert len({engine_name(base) for base in bases}) == len(bases)


@pytest.mark.parametrize("name", ["orders", "{}orders", "ord{ers"])
def test_a_name_without_hash_tag_is_refused_on_a_cluster(name: str) -> None:
    with pytest.raises(ConfigurationError, match="hash tag"):
        QueueKeyManager(name).check_slots()
