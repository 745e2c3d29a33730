from __future__ import annotations

import pickle
from typing import Any

import pytest

from rmq_core import ConfigurationError, Lease, MessageRef
from rmq_core.kernel.settling import of_lease, open_places, places_of, settled_some, settled_whole
from rmq_core.reports import Outcome


def held(count: int = 3) -> Lease:
    return Lease("q", "job", "me", count, 5000, "t")


@pytest.mark.parametrize(
    ("stray", "told"),
    [
        (MessageRef("other", 0, "m"), "belongs to lease 'other', not to 'job'"),
        (MessageRef("job", 3, "m"), "lease 'job' of 3 messages has no message 3"),
        (MessageRef("job", -1, "m"), "has no message -1"),
    ],
)
def test_a_message_of_another_lease_is_refused(stray: MessageRef, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        places_of(held(), [stray])


@pytest.mark.parametrize("given", [MessageRef("job", 0, "m"), "an-id", ["an-id"], [[MessageRef("job", 0, "m")]], 3])
def test_what_is_no_list_of_messages_is_refused_with_the_way_to_pass_one(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"messages must be .* `queue\.ack\(lease, \[message\]\)`"):
        of_lease(held(), given)


def test_a_settled_message_is_no_longer_open_and_is_reported_as_such() -> None:
    lease = held()
    report = settled_some(lease, [1, 0, 1], {0: Outcome.DEAD, 1: Outcome.SETTLED})
    assert report == (2, 1, (Outcome.SETTLED, Outcome.DEAD, Outcome.SETTLED))
    assert (open_places(lease), lease.state.partly, lease.state.settled) == ([2], True, False)
    assert settled_some(lease, [1], {}).outcomes == (Outcome.SETTLED_BEFORE,)


def test_a_lost_message_stays_open_and_makes_the_lease_a_lost_one() -> None:
    lease = held()
    assert settled_some(lease, [0], {0: Outcome.LOST}).settled == 0
    assert (open_places(lease), lease.lost) == ([0, 1, 2], True)


def test_settling_the_whole_lease_counts_its_open_messages() -> None:
    lease = held()
    assert settled_whole(lease, [Outcome.SETTLED, Outcome.DEAD, Outcome.MISSING]) == (2, 1, ())
    assert lease.state.settled


def test_another_process_starts_with_nothing_settled() -> None:
    lease = held()
    settled_some(lease, [0], {0: Outcome.SETTLED})
    assert open_places(pickle.loads(pickle.dumps(lease))) == [0, 1, 2]
