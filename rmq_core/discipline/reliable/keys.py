"""The keys of a reliable queue. All share the hash tag `{<queue>}`, so a queue lives in one slot of a cluster.

rmq:reliable:{q}:queue           list  envelopes; publish pushes left, workers take from the right
rmq:reliable:{q}:processing:<w>  list  messages that worker `w` holds, newest left
rmq:reliable:{q}:claims:<w>      hash  message id -> token, ms when claimed, ms when the claim ends (0: none set)
rmq:reliable:{q}:workers         zset  worker -> ms when it was last seen; the reaper checks the lists of these
rmq:reliable:{q}:strays          hash  message id -> ms when the reaper first saw it held without a claim
rmq:reliable:{q}:dead            list  dead letters, newest left, capped
rmq:reliable:{q}:slot:<c>/<n>    string  last call and reply of a client's call slot; expires
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rmq_core.queue.keys import fill


@dataclass(frozen=True, slots=True)
class ReliableKeys:
    """The keys of one queue."""

    name: str
    prefix: bytes = field(init=False)
    queue: bytes = field(init=False)
    workers: bytes = field(init=False)
    strays: bytes = field(init=False)
    dead: bytes = field(init=False)

    def __post_init__(self) -> None:
        fill(self, "rmq:reliable:{{{}}}:")

    def processing(self, worker: str) -> bytes:
        return b"%bprocessing:%b" % (self.prefix, worker.encode())

    def claims(self, worker: str) -> bytes:
        return b"%bclaims:%b" % (self.prefix, worker.encode())
