"""This version writes format 1, byte for byte: the golden files say what that is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.stored.golden import dump, load, now_ms
from tests.core.stored.scenes import FOLDER, SCENES, golden, played


@pytest.mark.parametrize("name", SCENES)
def test_this_version_writes_the_bytes_of_the_golden_file(server_url: str, redis_client: Any, name: str) -> None:
    assert played(name, server_url, redis_client) == golden(name)


@pytest.mark.parametrize("name", SCENES)
def test_a_golden_file_loads_as_it_is_written(redis_client: Any, name: str) -> None:
    since = now_ms(redis_client)
    load(redis_client, golden(name))
    assert dump(redis_client, since) == golden(name)


def test_every_golden_file_has_its_scene() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(SCENES)
