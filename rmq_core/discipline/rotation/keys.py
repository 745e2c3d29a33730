"""The keys of a rotation queue. The key of its list is the queue's name, so that any program can LPUSH ids into it.

{q} below is the name of the queue as hash tag; the name alone hashes to the same slot, so a queue lives in one slot.

<q>                          list   `<id>` until it is popped, then `<id>|<seconds>`; new ones left, pops right
rmq:rotation:{q}:done        zset   id that is done -> how many of its entries still have to be dropped
rmq:rotation:{q}:taken       hash   id -> how many of its entries are in progress
rmq:rotation:{q}:waiters     zset   waiter -> time (ms) when its registration ends
rmq:rotation:{q}:wake        list   tokens that wake waiters; expires
rmq:rotation:{q}:bell        channel of a one-shot notification for the watchers that armed it
rmq:rotation:{q}:slot:<c>/<n> string last call and reply of a client's call slot; expires
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rmq_core.errors import ConfigurationError
from rmq_core.queue.keys import check_name


@dataclass(frozen=True, slots=True)
class RotationKeys:
    """The keys of one queue."""

    name: str
    list: bytes = field(init=False)
    prefix: bytes = field(init=False)
    done: bytes = field(init=False)
    taken: bytes = field(init=False)
    waiters: bytes = field(init=False)
    wake: bytes = field(init=False)
    bell: bytes = field(init=False)

    def __post_init__(self) -> None:
        if check_name("name", self.name).startswith("rmq:"):
            raise ConfigurationError(f"name {self.name!r} must not begin with 'rmq:': RMQ's own keys do")
        prefix = b"rmq:rotation:{%b}:" % self.name.encode()
        object.__setattr__(self, "list", self.name.encode())
        object.__setattr__(self, "prefix", prefix)
        for name in self.__slots__[3:]:
            object.__setattr__(self, name, prefix + name.encode())
