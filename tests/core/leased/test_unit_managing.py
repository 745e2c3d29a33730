from __future__ import annotations

from typing import Any

import pytest

from rmq_core.errors import ConfigurationError, PayloadError
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
