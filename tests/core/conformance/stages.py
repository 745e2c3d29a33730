"""Where promises are checked: one server or cluster, one concurrency model, one client that all queues share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import Any, NamedTuple

import rmq_core
import rmq_core.asyncio
from rmq_core import RedisSettings
from tests.core.worlds import Loop
from tests.servers import CLUSTERS, Cluster, find_server, parse_external


class Place(NamedTuple):
    """A running server or cluster."""

    name: str
    url: str
    version: str


@contextmanager
def find_place(name: str) -> Iterator[Place]:
    """Yield the server or cluster of that name: of RMQ_TEST_SERVERS, or one of ours, which is stopped at the end."""
    with ExitStack() as stack:
        if name in CLUSTERS and name not in parse_external():
            url = stack.enter_context(closing(Cluster(CLUSTERS[name]))).url
        else:
            url = stack.enter_context(find_server(name)).url
        yield Place(name, url, _version(url))


def _version(url: str) -> str:
    with RedisSettings.from_url(url).client() as client:
        cluster = hasattr(client, "nodes_manager")
        info: Any = client.info("server", **({"target_nodes": client.get_random_node()} if cluster else {}))
    valkey = info.get("valkey_version")
    return f"Valkey {valkey}" if valkey else f"Redis {info['redis_version']}"


class Stage:
    """Opens queues of any discipline for one concurrency model; all of them share one client."""

    flavour: str

    def __init__(self, place: Place) -> None:
        self.place = place
        self._settings = RedisSettings.from_url(place.url)
        self.plain: Any = self._settings.client()
        """A plain client that reads and writes keys without the library."""
        self._threads = ThreadPoolExecutor(max_workers=32, thread_name_prefix="stage")

    def open(self, discipline: str, name: str, config: Any) -> Any:
        raise NotImplementedError

    def in_background(self, call: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        """Run `call` in another thread, as a second worker or a waiting call."""
        return self._threads.submit(call, *args, **options)

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        self.plain.close()


class SyncStage(Stage):
    """Queues of `rmq_core`."""

    flavour = "sync"

    def open(self, discipline: str, name: str, config: Any) -> Any:
        return rmq_core.open_queue(self.plain, name, discipline, config)


class AsyncStage(Stage):
    """Queues of `rmq_core.asyncio`, made blocking."""

    flavour = "async"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._loop = Loop()
        self._client = self._loop.call(self._settings.async_client)

    def open(self, discipline: str, name: str, config: Any) -> Any:
        return self._loop.call(rmq_core.asyncio.open_queue, self._client.inner, name, discipline, config)

    def close(self) -> None:
        super().close()
        self._client.aclose()
        self._loop.close()


STAGES = {stage.flavour: stage for stage in (SyncStage, AsyncStage)}
