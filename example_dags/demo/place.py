"""Where the demo lives: everything it makes lies below one directory, which starts empty."""

from __future__ import annotations

import shutil
from pathlib import Path

from rmq_core import LeasedQueue, embedded


class Place:
    """`build/demo`, with an embedded Redis in it."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._redis = self.root / "redis"
        self.redis_url = f"embedded://{self._redis}"

    def clear(self) -> None:
        """Remove what an earlier demo left, its Redis server included."""
        self.stop_redis()
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)

    def queue(self, name: str) -> LeasedQueue:
        """A queue to look at; starts the server unless it runs."""
        return LeasedQueue(self.redis_url, name)

    def stop_redis(self) -> None:
        """End the embedded server if it runs."""
        embedded.stop(self._redis)
