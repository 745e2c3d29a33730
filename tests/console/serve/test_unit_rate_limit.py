from __future__ import annotations

import pytest

from rmq_console.serve.rate_limit import ADDRESSES, MOST, WINDOW_S, FailedTries


class Watch:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def tries(watch: Watch) -> FailedTries:
    return FailedTries(watch)


def test_an_address_waits_after_ten_failures_until_the_first_is_a_minute_old(tries: FailedTries, watch: Watch) -> None:
    for _ in range(MOST):
        assert tries.wait_s("192.0.2.1") == 0
        tries.add("192.0.2.1")
        watch.now += 1
    assert tries.wait_s("192.0.2.1") == WINDOW_S - MOST
    assert tries.wait_s("192.0.2.2") == 0
    watch.now += WINDOW_S - MOST
    assert tries.wait_s("192.0.2.1") == 0
    tries.add("192.0.2.1")
    assert tries.wait_s("192.0.2.1") == 1


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("", "unix", False),
    ],
)
def test_addresses_of_one_machine_share_their_tries(tries: FailedTries, one: str, other: str, *, same: bool) -> None:
    for _ in range(MOST):
        tries.add(one)
    assert (tries.wait_s(other) > 0) is same


def test_the_memory_for_addresses_is_bounded(tries: FailedTries) -> None:
    for _ in range(MOST):
        tries.add("192.0.2.1")
    for number in range(ADDRESSES + 100):
        tries.add(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(tries._tries) == ADDRESSES
    assert tries.wait_s("192.0.2.1") == 0
