"""The keys of a stream queue. All are in the cluster slot of the stream, which another program may have created.

rmq:{q}:stream               stream  what `open_queue(redis, "q", "streams")` opens; entries have one field, `data`
rmq:{q}:stream:slot:<c>/<n>  string  last call and reply of a client's call slot; expires
rmq:{q}:stream:history       hash    counts and latencies per minute and hour, totals, marks; expires
orders                       stream  a stream of any other key, named by QueueConfig.stream_key
{orders}:slot:<c>/<n>        string  its call slots
{orders}:history             hash    its history

Entries that are delivered and not acknowledged are in the group's own list of pending entries. A native consumer holds
entries under its `consumer_name`. A lease holds them under its token, as a consumer of the group that is removed when
the lease is settled. A `consumer_name` never begins with `~`; tokens do. The consumer `~` holds nacked and
released entries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rmq_core.errors import ConfigurationError
from rmq_core.queue.keys import check_name

_TAG = re.compile(r"[^{]*\{[^}]+\}")
BACK = "~"
"""The consumer that holds nacked and released entries until another consumer or lease claims them."""


def stream_of(name: str) -> str:
    """Return the key of the stream of a named queue."""
    return f"rmq:{{{check_name('name', name)}}}:stream"


@dataclass(frozen=True, slots=True)
class StreamKeys:
    """The keys of one stream; its other keys begin with `prefix`."""

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
