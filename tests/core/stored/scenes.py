"""All scenes by the name of their golden file, and the function that plays one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.core.stored import leased_scenes, other_scenes
from tests.core.stored.deterministic import fix_ids
from tests.core.stored.golden import dump, now_ms

FOLDER = Path(__file__).parent / "format1"
GROUPED, SHARDED = FOLDER.with_name("format2"), FOLDER.with_name("format3")
SCENES = leased_scenes.SCENES | other_scenes.SCENES


def path_of(name: str) -> Path:
    """Return the path of the golden file of a scene."""
    folder = GROUPED if name.startswith("grouped_") else SHARDED if name == "sharded" else FOLDER
    return folder / f"{name}.txt"


def golden(name: str) -> str:
    """Return the text of the golden file of a scene."""
    return path_of(name).read_text("utf-8")


def played(name: str, url: str, client: Any) -> str:
    """Play a scene in an empty database and return its keys as text. It does not close clients that the scene ends."""
    with pytest.MonkeyPatch.context() as patch:
        fix_ids(patch)
        since = now_ms(client)
        SCENES[name](url, client)
        return dump(client, since, lambda key: _shown(name, key))


def _shown(name: str, key: bytes) -> bool:
    """Return whether the golden file of a scene has a key. Only one scene each is about call slots and the history."""
    if key.endswith((b"/h", b":clients")) or (key.endswith(b":history") and name != "leased_history"):
        return False
    return name == "leased_slots" or b":slot:" not in key
