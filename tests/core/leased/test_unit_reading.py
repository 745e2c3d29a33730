from __future__ import annotations

from typing import Any

import pytest

from rmq_core.exchange import Call, Command, Pipeline
from rmq_core.leased.inspecting import read, stats
from rmq_core.messages import Sizes
from tests.core.leased.by_hand import engine, envelopes, held, result, scripts

HEAD = b"7.abc h 1 0 0 me"
KIB, MIB = 1 << 10, 1 << 20


def plainly(sizes: Sizes, count: int = 1_001, lo: int = 0, hi: int | None = None) -> tuple[Any, ...]:
    """Return what the first request to read a lease asks of LRANGE, () if it is a call of the script."""
    lease = held(count, in_memory=False)
    lease.state.sizes = sizes
    want = next(read(engine(), lease, lo, hi))
    if isinstance(want, Call):
        return ()
    assert isinstance(want, Pipeline)
    asked = [command.args for command in want.calls]
    assert [each[0] for each in asked] == ["GETRANGE", "LRANGE", "LINDEX"]
    return asked[1][2:]


@pytest.mark.parametrize("longest", [16 * KIB, 16 * KIB + 1])
@pytest.mark.parametrize("average", [0, 89, 90, 150, 151])
def test_sizes_decide_whether_plain_commands_read(longest: int, average: int) -> None:
    plain = longest == 16 * KIB and 90 <= average <= 150
    assert plainly(Sizes(10, 1_000, longest, average), lo=5, hi=8) == ((6, 8) if plain else ())


@pytest.mark.parametrize(
    ("average", "count", "last"),
    [
        (200, 3_000, 3_000),
        (200, 8_001, 8_000),
        (8 * KIB, 10_000, 1_024),
        (200, 5_368_709, 8_000),
        (200, 5_368_710, 1_000),
    ],
)
def test_a_request_reads_at_most_eight_mebibytes_and_few_messages_of_a_huge_lease(
    average: int, count: int, last: int
) -> None:
    assert plainly(Sizes(1, average, average, average), count) == (1, last)


@pytest.mark.parametrize(
    "replies",
    [
        [b"", envelopes(2), HEAD],
        [b"", envelopes(3), None],
        [b"", envelopes(3), b"7.abcd h 1 0 0 me"],
        [b"", envelopes(3), ValueError()],
        [b"", ValueError(), HEAD],
        [ValueError(), envelopes(3), HEAD],
    ],
)
def test_the_script_decides_after_a_reply_that_proves_nothing(replies: list[Any]) -> None:
    lease = held(2_000, in_memory=False)
    lease.state.sizes = sizes = Sizes(1, 50, 50, 50)
    exchange = read(engine(), lease, 0, 3)
    next(exchange)
    assert scripts([exchange.send(replies)]) == ["read"]
    assert lease.state.sizes == sizes


def test_a_lease_of_few_messages_is_read_by_the_script_alone() -> None:
    lease = held(1_000, in_memory=False)
    reply = [b"read", 0, 0, b"", envelopes(1_000)]
    assert len(result(read(engine(), lease), reply)) == 1_000
    assert lease.state.sizes is None


def test_the_first_request_to_read_a_large_lease_asks_for_its_size() -> None:
    lease = held(2_000, in_memory=False)
    want = next(read(engine(), lease))
    assert isinstance(want, Pipeline)
    call, command = want.calls
    assert (call.given["first"], call.given["last"]) == (0, 63)  # type: ignore[union-attr]
    assert command == Command(("MEMORY", "USAGE", b"rmq:{q}:lease:job", "SAMPLES", 0))


def test_a_queue_is_not_empty_because_its_only_lease_ended_while_it_was_counted() -> None:
    held_one = [0, 0, 1, 0, 0, b"", 9_000, [b"job"], 0]
    ready_again = [1, 0, 0, 0, 0, 8_000, 9_000, [], 0]
    found = result(stats(engine()), held_one, [0, b""], ready_again)
    assert (found.ready, found.leased, found.leases) == (1, 0, 0)
