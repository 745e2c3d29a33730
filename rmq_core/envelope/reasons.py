"""Why messages failed: the reason of the newest failure, and the group of a reason. Pure: no IO, no clock.

Two failures belong to one group if their reasons are equal once numbers, hex ids and UUIDs are replaced by `#`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_VARIABLE = re.compile(
    r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"  # a UUID
    r"|\b[0-9a-f]{16}-[0-9a-f]+\b"  # an id of a message
    r"|\b0[xX][0-9a-fA-F]+\b"
    r"|\b(?=[a-fA-F]*\d)[0-9a-fA-F]+\b(?![.,:]\d)"
    r"|\d+(?:[.,:]\d+)*"
)
_CUT, _SHOWN = 200, 120  # a history keeps 200 characters of a reason, so longer ones end at different words
UNKNOWN = "unknown"
"""The reason of a dead letter without a history."""


@lru_cache(maxsize=4096)
def generalized(reason: str) -> str:
    """Return a reason with `#` for each number, hex id and UUID."""
    return _VARIABLE.sub("#", reason)


@lru_cache(maxsize=4096)
def group_of_reason(reason: str) -> str:
    """Return the group of a reason; that of a reason that was cut off ends with `*`."""
    general = generalized(reason)
    return general if len(reason) < _CUT else f"{general[:_SHOWN]}*"


class LastFailure(NamedTuple):
    """The newest failure of a message: its reason, or its kind if it has none, and its time in ms, 0 if unknown."""

    reason: str
    at_ms: int


def last_failure(history: bytes) -> LastFailure:
    """Return the newest failure of a history, or of its newest line alone."""
    line = history.removesuffix(b"\n").rpartition(b"\n")[2].partition(b"\x1f")[0]
    parts = line.decode(errors="replace").split("\t", 3)
    if len(parts) < 4 or not parts[1].isdecimal():
        return LastFailure(UNKNOWN, 0)
    return LastFailure(parts[3] or parts[0], int(parts[1]))
