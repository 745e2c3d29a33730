"""All scenes by the name of their golden file, and how one is played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.redis.stored import leased_scenes, other_scenes
from tests.redis.stored.fixed import fix_ids
from tests.redis.stored.golden import dump, now_ms

FOLDER = Path(__file__).parent / "format1"
SCENES = leased_scenes.SCENES | other_scenes.SCENES


def path_of(name: str) -> Path:
    """The golden file of a scene."""
    return FOLDER / f"{name}.txt"


def golden(name: str) -> str:
    """What a golden file says."""
    return path_of(name).read_text("utf-8")


def played(name: str, url: str, client: Any) -> str:
    """What this version leaves in an empty database after a scene. Clients that end are not asked to close."""
    with pytest.MonkeyPatch.context() as patch:
        fix_ids(patch)
        since = now_ms(client)
        SCENES[name](url, client)
        return dump(client, since, lambda key: name == "leased_slots" or b":slot:" not in key)
