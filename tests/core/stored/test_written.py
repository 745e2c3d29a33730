"""This version writes formats 1, 2 and 3, byte for byte: the golden files say what they are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.stored.golden import dump, load, now_ms
from tests.core.stored.scenes import FOLDER, GROUPED, SCENES, SHARDED, golden, path_of, played


@pytest.mark.parametrize("name", SCENES)
def test_this_version_writes_the_bytes_of_the_golden_file(server_url: str, redis_client: Any, name: str) -> None:
    assert played(name, server_url, redis_client) == golden(name)


@pytest.mark.parametrize("name", SCENES)
def test_a_golden_file_loads_as_it_is_written(redis_client: Any, name: str) -> None:
    since = now_ms(redis_client)
    load(redis_client, golden(name))
    assert dump(redis_client, since) == golden(name)


def test_every_golden_file_has_its_scene() -> None:
    found = {path for folder in (FOLDER, GROUPED, SHARDED) for path in folder.glob("*.txt")}
    assert found == {path_of(name) for name in SCENES}
