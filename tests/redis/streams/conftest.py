"""The stage of the stream tests, over {sync, async} x servers."""

from __future__ import annotations

import pytest

from tests.redis.streams.stage import Stage
from tests.redis.worlds import World


@pytest.fixture
def stage(world: World) -> Stage:
    return Stage(world)
