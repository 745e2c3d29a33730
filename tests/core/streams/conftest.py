"""The stage of the stream tests, over {sync, async} x servers."""

from __future__ import annotations

import pytest

from tests.core.streams.stage import Stage
from tests.core.worlds import World


@pytest.fixture
def stage(world: World) -> Stage:
    return Stage(world)
