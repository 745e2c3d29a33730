from __future__ import annotations

from typing import Any

import pytest

from rmq_core.errors import ConfigurationError, PayloadError
from rmq_core.leased.grouping import groups, publications
from rmq_core.leased.managing import cancel, forget, redrive_some
from tests.core.leased.by_hand import engine, envelope, envelopes, result


@pytest.mark.parametrize("message_ids", [[], ["elsewhere"]])
def test_missing_dead_letters_are_not_redriven(message_ids: list[str]) -> None:
    replies = [envelopes(3)] if message_ids else []
    assert result(redrive_some(engine(), message_ids), *replies) == 0


@pytest.mark.parametrize(
    ("message_ids", "match"), [("m1", "pass \\[message_id\\]"), ([5], "must be the str that publish returned")]
)
def test_an_argument_without_dead_letter_ids_is_refused(message_ids: Any, match: str) -> None:
    with pytest.raises(ConfigurationError, match=match):
        next(redrive_some(engine(), message_ids))


def test_a_message_claimed_between_finding_and_removing_is_not_cancelled() -> None:
    assert result(cancel(engine(), "wanted"), [envelope("x", "wanted")], b"removed 0", []) is False


@pytest.mark.parametrize("message_id", [5, b"m", None])
def test_an_id_that_publish_never_returned_is_refused(message_id: Any) -> None:
    with pytest.raises(ConfigurationError, match="message_id must be the str that publish returned"):
        next(cancel(engine(), message_id))


@pytest.mark.parametrize("dedup_key", ["", b"", 5, None, "\ud800"])
def test_a_key_that_no_message_can_have_is_refused(dedup_key: Any) -> None:
    with pytest.raises(PayloadError, match=r"^dedup_key "):
        next(forget(engine(), dedup_key))


def test_a_field_that_a_growing_hash_gives_twice_is_listed_once() -> None:
    record, later = b"t 1 9 8 0 300 0 0", b"t 1 10 9 0 300 0 0"
    found = result(groups(engine(), 3), [b"5", [b"a", record, b"b", record]], [b"0", [b"a", later]], [b"0", b"0"])
    assert [(each.name, each.waiting) for each in found] == [("a", 9), ("b", 8)]
    now = [0, 0, 0, 0, 0, b"", b"1000", [], 0]
    counts = b"8 3 0 0 0 0 0 0"
    twice = result(publications(engine(), 3), now, [b"5", [b"x", counts]], [b"0", [b"x", counts]])
    assert [each.name for each in twice] == ["x"]
