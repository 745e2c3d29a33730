"""The payloads of the benchmarks: texts, of 190 bytes unless stated, never the same twice."""

from __future__ import annotations

import itertools

SIZE = 190
_numbers = itertools.count()


def payloads(count: int, size: int = SIZE) -> list[str]:
    """Return `count` texts that this process has not sent before."""
    return [f"{next(_numbers):010}".ljust(size, "x") for _ in range(count)]
