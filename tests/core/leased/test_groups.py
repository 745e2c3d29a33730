"""Messages that wait in groups: who is served next, what an exclusive group promises, and changes on a live queue."""

from __future__ import annotations

import pytest

from tests.core.leased.groups import POLICIES, Groups
from tests.core.worlds import World


@pytest.mark.parametrize("policy", POLICIES)
def test_random_calls_keep_order_and_limits_and_lose_nothing(world: World, policy: str, full_faults: bool) -> None:
    for seed in range(200 if full_faults else 6):
        world.client.flushdb()
        Groups(world, f"{policy} {seed}", policy).run(400 if full_faults else 120)


def test_a_policy_changes_on_a_live_queue_and_nothing_is_lost(world: World, full_faults: bool) -> None:
    for seed in range(100 if full_faults else 8):
        world.client.flushdb()
        groups = Groups(world, f"changes {seed}", None)
        for policy in groups.chance.sample([None, *POLICIES], 4):
            for _ in range(30):
                groups.chance.choice([groups.publish, groups.claim, groups.ack, groups.some, groups.expire])()
            groups.set_policy(policy)
            groups.audit()
        groups.finish()
