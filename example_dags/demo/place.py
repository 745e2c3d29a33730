"""The directory of the demo: all files of the demo are below it, and it is empty at the start."""

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
        """Remove the files and the Redis server of an earlier demo."""
        self.stop_redis()
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)

    def queue(self, name: str) -> LeasedQueue:
        """Open a queue; start the server unless it runs."""
        return LeasedQueue(self.redis_url, name)

    def stop_redis(self) -> None:
        """End the embedded server if it runs."""
        embedded.stop(self._redis)
