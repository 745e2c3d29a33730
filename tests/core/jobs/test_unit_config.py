from __future__ import annotations

from typing import Any

import pytest

from rmq_core import ConfigurationError
from rmq_core.jobs import JobsConfig, WorkerConfig


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("lease", 0), ("unique_ttl", -1), ("settled_ttl", "x"), ("result_ttl", None), ("max_attempts", 0),
     ("max_dead", 0), ("max_events", -1), ("max_payload_bytes", 0), ("max_payload_depth", 501),
     ("retry_budget", 301), ("backoff", 5)],
)  # fmt: skip
def test_an_invalid_setting_raises_an_error_that_names_it(parameter: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=parameter):
        JobsConfig(**{parameter: value})


@pytest.mark.parametrize(("parameter", "value"), [("concurrency", 0), ("prefetch", -1), ("ack_window", -1),
                                                   ("grace", "x")])  # fmt: skip
def test_an_invalid_setting_of_a_worker_raises_an_error_that_names_it(parameter: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=parameter):
        WorkerConfig(**{parameter: value})


def test_durations_are_sent_to_scripts_in_milliseconds() -> None:
    assert JobsConfig(lease=1.5).lease_ms == 1500
