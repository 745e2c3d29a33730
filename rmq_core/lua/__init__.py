"""Loads scripts: one file is one atomic operation; `-- include: name` lines splice in files of `include/`."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_INCLUDE = re.compile(r"^-- include: ([\w/]+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n|^\s*\n", re.MULTILINE)


class Script(NamedTuple):
    """A script as the server gets it, and the SHA1 by which it knows it."""

    name: str
    source: bytes
    sha: bytes


@cache
def load(name: str) -> Script:
    """The script `<name>.lua` of this folder with its includes, comments taken out."""
    text = _COMMENT.sub("", _INCLUDE.sub(lambda match: _read(f"include/{match[1]}"), _read(name)))
    source = text.encode()
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())


def _read(name: str) -> str:
    return files(__name__).joinpath(f"{name}.lua").read_text("utf-8")
