from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rmq_airflow.threshold import Threshold, report
from rmq_core import Backlog, ConfigurationError


def test_enough_messages_are_enough_whatever_their_age() -> None:
    assert Threshold.of(3, None).met_by(Backlog(3, 0.0))
    assert not Threshold.of(3, None).met_by(Backlog(2, 9999.0))


def test_an_old_message_is_enough_whatever_their_number() -> None:
    threshold = Threshold.of(100, timedelta(minutes=1))
    assert threshold.met_by(Backlog(1, 60.0))
    assert not threshold.met_by(Backlog(1, 59.9))


def test_an_empty_queue_is_never_enough() -> None:
    assert not Threshold.of(1, 1).met_by(Backlog(0, None))


@pytest.mark.parametrize("min_messages", [0, -1, 1.5, True, "3"])
def test_a_number_that_makes_no_sense_is_refused_by_name(min_messages: Any) -> None:
    with pytest.raises(ConfigurationError, match="min_messages"):
        Threshold.of(min_messages, None)


@pytest.mark.parametrize("max_age", [0, -1.0, True, "1h", timedelta(0), float("nan")])
def test_an_age_that_makes_no_sense_is_refused_by_name(max_age: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_age"):
        Threshold.of(1, max_age)


def test_the_report_is_plain_and_names_no_message() -> None:
    assert report("q", Backlog(7, 1.5)) == {"queue": "q", "ready": 7, "oldest_age": 1.5}
