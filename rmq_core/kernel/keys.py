"""Every Redis key of a leased queue. All share the hash tag `{<queue>}`, so a queue lives in one slot of a cluster.

rmq:{q}:ready        list    envelopes; publish pushes right, claim pops left
rmq:{q}:delayed      zset    envelope -> due time, ms; for an isolated message -g, where g is its group
rmq:{q}:leases       zset    lease id -> deadline, ms; +inf is never reclaimed. `~+<c>`: a commit of stages
                             that any process may finish from that time on
rmq:{q}:lease:<id>   list    [0] head (token, state, claimed, takeovers, returned, owner), then the envelopes
rmq:{q}:settled:<id> bitmap  indexes settled one by one
rmq:{q}:done:<id>    string  record that a lease with a caller-chosen id was acked whole; expires
rmq:{q}:consumer:<c> hash    current holder of a consumer's name: run, stream, until (ms), finished, before; expires
rmq:{q}:holds:<id>   hash    group that a lease holds -> where its messages begin, in the lease and in the group;
                             byte 1 and a publication -> how many unsettled messages of it the lease has
rmq:{q}:format       string  "2 <version of RMQ that it needs>", only where messages wait in groups
rmq:{q}:groups       hash    group -> its record; only in a queue of format 2, as the next eight
rmq:{q}:grouped      hash    group, NUL, number -> envelope
rmq:{q}:turns        zset    groups that may be claimed -> virtual time of their turn
rmq:{q}:suspects     zset    groups whose next message is isolated, in the same way
rmq:{q}:resting      zset    other groups with messages -> ms, when they may be claimed; +inf when a lease has to end
rmq:{q}:held_before  set     leases from before the limit of groups, until the last of them has ended
rmq:{q}:buckets      zset    group, empty for the whole queue -> us, when its burst is whole again; expires
rmq:{q}:publications hash    publication -> how many of its messages wait, are leased, ..., in a queue of format 2
rmq:{q}:watchers     zset    who waits for the end of a publication -> ms, when that expires
rmq:{q}:finished     list    tokens that wake them; expires
rmq:{q}:unique       hash    128-bit digest of a key that is taken until its message is settled -> where that is
rmq:{q}:expiring     zset    number and group of a message that expires -> ms, when it does
rmq:{q}:overdue      list    ids of messages that expired and are dead letters, until a client is told of them
rmq:{q}:wanted       zset    group -> ms, until which claims wait for it; expires
rmq:{q}:news         stream  groups that such claims may get messages of; expires
rmq:{q}:fence        string  counter of fencing numbers: a claim adds one, any other use adds two
rmq:{q}:slot:<c>/<n> string  last call and reply of a client's call slot; expires
rmq:{q}:dedup:<d>    string  128-bit digest of a deduplication key -> nonce of the publishing call; expires
rmq:{q}:stage:<id>   list    staged messages, in the order of ready; expires unless they are published before
rmq:{q}:staged:<c>   list    stages of a commit that are not ready yet: "<messages> <1 when plain> <id>"
rmq:{q}:sink:<id>    string  number of the last batch that a sink published; expires
rmq:{q}:import:<n>   string  progress of an import: "<open|done> <lines> <stored> <digests>"; expires
rmq:{q}:dead         list    dead letters, newest left, capped
rmq:{q}:completed    list    acked messages, newest left, capped, off by default
rmq:{q}:failed       list    nacked messages, newest left, capped, off by default
rmq:{q}:waiters      zset    waiter -> ms, when it expires; `*`: a notification is requested; `=`, score 0: paused;
                             `+`: claims wait for some groups
rmq:{q}:wake         list    tokens that wake waiters; expires
rmq:{q}:timer        string  next due time and the waiter that is responsible for it; expires
rmq:{q}:slot:<c>/h   string  number of the last flush of a client; expires
rmq:{q}:history      hash    counts and latencies per minute and hour, totals, marks; expires
rmq:{q}:settings     string  settings that all clients follow, JSON: name -> value
rmq:{q}:differing    zset    programs whose configs differ from them -> when they last said so, ms; expires
rmq:{q}:clients      zset    programs that publish or consume, with host, pid, version and settings -> ms; expires
rmq:{q}:journal      stream  who published, claimed and settled which messages, off by default
rmq:{q}:ready:0      list    what `ready` is elsewhere, in a queue of several shards: format 3
rmq:{q}:epoch        string  number of the last change of the shards that this one knows of
rmq:{q}:parked       zset    consumer that waits for messages of any shard -> ms, when that expires
rmq:{q}:knocks       list    shards that have messages for these; expires
rmq:{q}:parts:<id>   string  parts of an acked lease that are acked from now on: "<shard>=<token> ..."
rmq:{q}:channel      pubsub  one notification for the watchers that requested one
rmq:shard:{q~s}:...          the same for the shard `s` of a queue, as far as it needs them
rmq:queues           set     names of all queues, for tools
rmq:queues:<d>       set     names of the queues of another discipline `d`; a name that is in none of these is leased

Other disciplines document their keys in `state.py` of their packages.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, ClassVar

from rmq_core.errors import ConfigurationError
from rmq_core.exchange.scripts import Laid, format_key

QUEUES = b"rmq:queues"
UNHELD = ("ready", "isolated", "delayed", "dead", "completed", "failed")
"""The places of a leased queue whose messages are under no lease; they can be browsed and purged."""


def queues_of(discipline: str) -> bytes:
    """Return the key of the set that holds the names of a discipline's queues."""
    return b"%b:%b" % (QUEUES, discipline.encode())


def check_name(parameter: str, name: str) -> str:
    """Return a name that is allowed in a key and in a lease's head: text without control characters or braces.

    Raises ConfigurationError for any other value.
    """
    if not isinstance(name, str) or not name or len(name) > 512:
        raise ConfigurationError(f"{parameter} must be a text of 1 to 512 characters, not {name!r}")
    if not name.isprintable() or "{" in name or "}" in name:
        raise ConfigurationError(f"{parameter} {name!r} must not hold control characters or braces")
    return name


class Keys(Laid):
    """The keys of a queue. Each annotation of a subclass is one of them: the prefix and its own name."""

    name: str
    prefix: bytes
    _pattern: ClassVar[str]

    def __init_subclass__(cls, prefix: str) -> None:
        """prefix: what all keys begin with; the name of the queue takes the place of `*`, as the hash tag."""
        cls._pattern = prefix

    def __init__(self, name: str) -> None:
        self.name = check_name("name", name)
        self.prefix = self._pattern.replace("*", f"{{{name}}}").encode()
        for key in type(self).__annotations__:
            setattr(self, key, self.prefix + key.encode())


def part(kind: str) -> Callable[[Any, str | bytes], bytes]:
    """Return the method of a keys object that names the key of one lease, or of one stage, ..., by its id."""
    start = kind.encode() + b":"

    def key(keys: Any, of: str | bytes) -> bytes:
        prefix: bytes = keys.prefix
        return prefix + start + (of if isinstance(of, bytes) else of.encode())

    return key


class LeasedKeys(Keys, prefix="rmq:*:"):
    """The keys of one queue."""

    ready: bytes
    delayed: bytes
    leases: bytes
    fence: bytes
    dead: bytes
    completed: bytes
    failed: bytes
    waiters: bytes
    wake: bytes
    timer: bytes
    channel: bytes
    history: bytes
    journal: bytes
    settings: bytes
    differing: bytes
    clients: bytes
    groups: bytes
    grouped: bytes
    turns: bytes
    suspects: bytes
    resting: bytes
    held_before: bytes
    buckets: bytes
    publications: bytes
    watchers: bytes
    finished: bytes
    unique: bytes
    expiring: bytes
    overdue: bytes
    wanted: bytes
    parked: bytes
    knocks: bytes
    news: bytes
    epoch: bytes
    layouts = ("", "grouped", "sharded")
    known_epoch, leaving, suffix = b"", b"", ""
    shard = "0"
    derived = MappingProxyType(
        {"group_holds": ("holds_of", ("lease",)), "ended_holds": ("holds_of", ("acked_lease", "lease"))}
    )

    def of(self, place: str) -> bytes:
        """Return the key of that name, for a place that a caller chose."""
        key: bytes = getattr(self, place)
        return key

    def holds_of(self, lease: bytes) -> bytes:
        """Return the key of the groups that a lease holds."""
        return self.prefix + b"holds:" + lease[len(self.prefix) + len(b"lease:") :]

    def lay_out(self, layout: str) -> None:
        super().lay_out(layout)
        self.ready = self.prefix + (b"ready:0" if layout == "sharded" else b"ready")

    @property
    def line(self) -> bytes:
        """The key of the ready messages in format 1; in format 3 it holds a mark, and `ready` is another key."""
        return self.prefix + b"ready"

    @property
    def format(self) -> bytes:
        """The key of the format of the queue."""
        return format_key(self.prefix)

    lease = part("lease")
    settled = part("settled")
    done = part("done")
    consumer = part("consumer")
    stage = part("stage")
    staged = part("staged")
    sink = part("sink")
    dedup = part("dedup")
    parts = part("parts")


class ShardKeys(LeasedKeys, prefix="rmq:shard:*:"):
    """The keys of a shard, other than the first, of a queue. name: that of the queue."""

    layouts = ("sharded",)  # type: ignore[assignment]

    def __init__(self, queue: str, shard: str) -> None:
        self.name = queue
        self.prefix = self._pattern.replace("*", f"{{{queue}~{shard}}}").encode()
        for key in LeasedKeys.__annotations__:
            setattr(self, key, self.prefix + key.encode())
        self.layout = "sharded"
        self.shard, self.suffix = shard, f".{shard}"
