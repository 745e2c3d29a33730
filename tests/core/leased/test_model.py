"""The engine against the model of `leased_model`: any sequence of calls leaves both in the same state.

Leases expire and delays end by their scores being set into the past behind the library's back: sleeping would make
an example last seconds, and a short lease would expire in the middle of a step whose outcome the model knows.
"""

from __future__ import annotations

import pytest

from tests.core.leased.machine import Machine, tell_stories
from tests.core.worlds import World


@pytest.mark.slow
def test_any_sequence_of_calls_leaves_the_queue_in_the_state_of_the_model(world: World, *, full_faults: bool) -> None:
    tell_stories(lambda: Machine(world), *((500, 60) if full_faults else (60, 50)))
