"""A test does not fail because another process takes its port first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.servers.process import on_free_ports


def failing(times: int, text: str) -> Callable[[], str]:
    errors = [RuntimeError(text)] * times

    def start() -> str:
        if errors:
            raise errors.pop()
        return "started"

    return start


def test_a_server_whose_port_was_taken_is_started_on_another() -> None:
    assert on_free_ports(failing(4, "bind: Address already in use")) == "started"


@pytest.mark.parametrize(("times", "text"), [(1, "a wrong option"), (5, "bind: Address already in use")])
def test_any_other_failure_and_a_persistent_one_are_raised(times: int, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        on_free_ports(failing(times, text))
