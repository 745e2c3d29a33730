from __future__ import annotations

import pytest

from rmq_core.compat.keys import QueueKeyManager, QueuePart, engine_name, hash_tag, place
from rmq_core.errors import ConfigurationError


def test_the_parts_of_a_queue_are_named_after_it() -> None:
    key = QueueKeyManager("orders")
    assert (key.pending, key.processing) == ("orders::pending", "orders::processing")
    assert (key.completed, key.failed, key.dead_letter) == ("orders::completed", "orders::failed", "orders::dlq")
    assert key.deduplication("7") == "orders::deduplication::7"


def test_a_gateway_may_name_the_place_for_dead_letters() -> None:
    assert QueueKeyManager("orders", dead_letter="poison").dead_letter == "poison"


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


@pytest.mark.parametrize("key", ["orders", "pending", "", None])
def test_a_name_that_is_no_part_is_refused_with_an_example(key: str) -> None:
    with pytest.raises(ConfigurationError, match="orders::pending"):
        place(key)


def test_queues_that_differ_never_share_an_engines_queue() -> None:
    bases = ["q::", "q--", "q--::", "q%::", "{q}::", "%7Bq%7D::", "q\n::", "q%0A::", "q-%::", "q%", "q"]
    assert len({engine_name(base) for base in bases}) == len(bases)


@pytest.mark.parametrize(("key", "tag"), [("{a}b", "a"), ("a{b}{c}", "b"), ("a{}b", None), ("a{b", None), ("ab", None)])
def test_a_hash_tag_is_the_text_in_the_first_braces(key: str, tag: str | None) -> None:
    assert hash_tag(key) == tag


@pytest.mark.parametrize("name", ["orders", "{}orders", "ord{ers"])
def test_a_name_without_hash_tag_is_refused_on_a_cluster(name: str) -> None:
    with pytest.raises(ConfigurationError, match="hash tag"):
        QueueKeyManager(name).check_slots()


def test_a_dead_letter_key_in_another_slot_is_refused_on_a_cluster() -> None:
    QueueKeyManager("{orders}", dead_letter="dead{orders}").check_slots()
    with pytest.raises(ConfigurationError, match="dead_letter_queue"):
        QueueKeyManager("{orders}", dead_letter="{poison}").check_slots()
