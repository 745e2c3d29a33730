"""Libraries for jobs that RMQ is compared with: where each runs, and how many jobs at once suit it best.

Each has an environment of its own on one version of Python, with hiredis where it can use it. chasquimq is pinned to
the release that the targets name and to the redis-py that it asks for; of the others it is the newest. `best` was found
by trying 1, 4, 8, 16, 32, 64, 100 and 256 jobs at once, among them the library's default.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.message_queue_peers import Peer


@dataclass(frozen=True, slots=True)
class Rival:
    """A library as it is measured: `library` names what `jobs_worker` does with it."""

    name: str
    library: str
    peer: Peer
    package: str
    best: int
    sync: bool = False
    """Whether it knows no event loop; what it adds is compared with what RMQ adds without one."""
    bulk: bool = True
    """Whether it can add several jobs with one call that does not add them one by one."""


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
    Rival("celery", "celery", _needing("celery", "celery[redis]", "hiredis"), "celery", best=16, sync=True, bulk=False),
    Rival("huey", "huey", _needing("huey", "huey", "redis[hiredis]"), "huey", best=16, sync=True, bulk=False),
    Rival("arq", "arq", _needing("arq", "arq", "hiredis"), "arq", best=64, bulk=False),
    Rival("saq", "saq", _needing("saq", "saq[redis,hiredis]", "typing-extensions"), "saq", best=64, bulk=False),
    Rival("taskiq-redis, stream", "taskiq-stream", _TASKIQ, "taskiq-redis", best=100, bulk=False),
    Rival("taskiq-redis, list", "taskiq-list", _TASKIQ, "taskiq-redis", best=32, bulk=False),
    Rival("streaq", "streaq", _needing("streaq", "streaq", "hiredis"), "streaq", best=16),
)
