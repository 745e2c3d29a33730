"""The keys of a stream queue. All lie in the slot of the stream, which may be a stream of somebody else's making.

rmq:{q}:stream               stream  what `open_queue(redis, "q", "streams")` opens; entries have one field, `data`
rmq:{q}:stream:slot:<c>/<n>  string  last call and reply of a client's call slot; expires
orders                       stream  a stream of any other key, named by QueueConfig.stream_key
{orders}:slot:<c>/<n>        string  its call slots

What is delivered and not acknowledged is in the group's own list of pending entries. A native consumer holds entries
under its `consumer_name`, a lease under its token: a consumer of the group that goes when the lease is settled. A
`consumer_name` never begins with `~`; tokens do, and `~` alone is the consumer of what was given back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rmq_core.errors import ConfigurationError
from rmq_core.queue.keys import check_name

_TAG = re.compile(r"[^{]*\{[^}]+\}")
BACK = "~"
"""The consumer that holds what was given back until somebody claims it."""


def stream_of(name: str) -> str:
    """The key of the stream of a queue that is known by a name."""
    return f"rmq:{{{check_name('name', name)}}}:stream"


@dataclass(frozen=True, slots=True)
class StreamKeys:
    """The keys of one stream; `prefix` is what its other keys begin with."""

    key: str
    prefix: bytes = field(init=False)
    stream: bytes = field(init=False)

    def __post_init__(self) -> None:
        if _TAG.match(self.key):
            tagged = self.key
        elif "{" in self.key or "}" in self.key:
            raise ConfigurationError(f"stream_key {self.key!r} has braces that are no hash tag; use it without them")
        else:
            tagged = f"{{{self.key}}}"
        object.__setattr__(self, "stream", self.key.encode())
        object.__setattr__(self, "prefix", tagged.encode() + b":")
