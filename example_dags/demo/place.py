"""The directory of the demo: all files of the demo are below it, and it is empty at the start."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

from example_dags.demo.cluster import NODES, Cluster
from rmq_core import LeasedQueue, embedded


class Place:
    """`build/demo`, with an embedded Redis in it, or else a Redis Cluster, in which queues are stored in shards.

    journal: queues record what became of each message, unless they are in shards, where they cannot.
    """

    def __init__(self, root: Path, *, cluster: bool = False, journal: bool = False) -> None:
        self.root = root.absolute()
        self._redis = self.root / "redis"
        self._journal = timedelta(days=1) if journal else None
        self.cluster = Cluster(self._redis) if cluster else None

    @property
    def redis_url(self) -> str:
        """The URL of the server, or of the cluster once it has started."""
        return self.cluster.url if self.cluster else f"embedded://{self._redis}"

    def clear(self) -> None:
        """Remove the files and the Redis server of an earlier demo."""
        embedded.stop(self._redis)
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)

    def start_redis(self) -> None:
        """Start the cluster; the embedded server starts with the first client. Raises ChildFailed."""
        if self.cluster:
            self.cluster.start()

    def queue(self, name: str, *, grouped: bool = False) -> LeasedQueue:
        """Open a queue. In the cluster, store it in shards unless it is `grouped`: groups have one order."""
        queue = LeasedQueue(self.redis_url, name)
        if self.cluster and not grouped:
            queue.admin.configure(shards=NODES)
        elif self._journal:
            queue.admin.configure(journal=self._journal)
        return queue

    def stop_redis(self) -> None:
        """End the server, or the cluster, if it runs."""
        if self.cluster:
            self.cluster.stop()
        else:
            embedded.stop(self._redis)
