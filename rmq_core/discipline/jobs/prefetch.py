"""How many jobs a worker may hold beyond those it runs: as many as it finishes in 20 ms. Pure: reads no clock."""

from __future__ import annotations

_MOMENT_S = 0.02


class Prefetch:
    """Computes how many jobs to fetch ahead: many quick ones, so that no handler waits for Redis; few slow ones."""

    def __init__(self, most: int) -> None:
        self.most, self.extra = most, 0
        self._rate = 0.0
        self._done, self._since = 0, 0.0

    def note(self, done: int, now: float) -> int:
        """Note that the worker has finished `done` jobs in all by `now`. Return how many extra jobs it may hold."""
        passed = now - self._since
        if passed < _MOMENT_S / 10:
            return self.extra
        rate = (done - self._done) / passed
        self._rate = rate if rate > self._rate else (rate + self._rate) / 2
        self._done, self._since = done, now
        self.extra = min(self.most, int(self._rate * _MOMENT_S))
        return self.extra
