"""The job libraries that RMQ is compared with: the environment of each, and its best number of concurrent jobs.

Each has an environment of its own on the same version of Python, with hiredis if the library can use it. chasquimq is
pinned to the release that the targets name, and to the redis-py that this release requires; of the others, the newest
release is used. `best` was found by trying 1, 4, 8, 16, 32, 64, 100 and 256 concurrent jobs and the library's default.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.message_queue_peers import Peer


@dataclass(frozen=True, slots=True)
class Rival:
    """A library as it is measured: `library` is its name in `jobs_worker`."""

    name: str
    library: str
    peer: Peer
    package: str
    best: int
    sync: bool = False
    """Whether it has no asyncio interface; its adding is compared with RMQ's blocking queue."""
    bulk: bool = True
    """Whether it has a call that adds several jobs together, and not one by one."""


def _needing(name: str, *needs: str) -> Peer:
    return Peer(name, name, needs)


_OURS = Peer("RMQ", "rmq_core", ("redis[hiredis]>=8.0", "tenacity>=9.0"))
_DRAMATIQ = _needing("dramatiq", "dramatiq[redis]", "hiredis")
_TASKIQ = _needing("taskiq-redis", "taskiq-redis", "hiredis")
RMQ = Rival("RMQ", "rmq", _OURS, "redis", best=100)
RMQ_SYNC = Rival("RMQ without asyncio", "rmq-sync", _OURS, "redis", best=0, sync=True)
CHASQUI = Rival(
    "chasquimq", "chasquimq", _needing("chasquimq 1.3.0", "chasquimq==1.3.0", "redis[hiredis]<7"), "chasquimq", best=256
)
OTHERS = (
    Rival("rq", "rq", _needing("rq", "rq", "hiredis"), "rq", best=1, sync=True),
    Rival("dramatiq", "dramatiq", _DRAMATIQ, "dramatiq", best=16, sync=True, bulk=False),
    Rival(
        "celery", "celery", _needing("celery", "celery", "redis", "hiredis"), "celery", best=16, sync=True, bulk=False
    ),
    Rival("huey", "huey", _needing("huey", "huey", "redis[hiredis]"), "huey", best=16, sync=True, bulk=False),
    Rival("arq", "arq", _needing("arq", "arq", "hiredis"), "arq", best=64, bulk=False),
    Rival("saq", "saq", _needing("saq", "saq[redis,hiredis]", "typing-extensions"), "saq", best=64, bulk=False),
    Rival("taskiq-redis, stream", "taskiq-stream", _TASKIQ, "taskiq-redis", best=100, bulk=False),
    Rival("taskiq-redis, list", "taskiq-list", _TASKIQ, "taskiq-redis", best=32, bulk=False),
    Rival("streaq", "streaq", _needing("streaq", "streaq", "hiredis"), "streaq", best=16),
)
