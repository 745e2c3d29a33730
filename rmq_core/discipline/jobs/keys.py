"""Every Redis key of a job queue. All share the hash tag `{<queue>}`, so a queue lives in one slot of a cluster.

rmq:{q}:jobs:ready       stream  jobs, field `e` the envelope; consumer group `jobs`. Finished jobs are deleted
rmq:{q}:jobs:delayed     zset    job id -> due time, ms
rmq:{q}:jobs:later       hash    job id -> envelope of a delayed job
rmq:{q}:jobs:dead        list    dead letters, newest left, capped
rmq:{q}:jobs:leases      zset    lease id -> deadline, ms
rmq:{q}:jobs:heads       hash    lease id -> `<token> <takeovers> <count> <returned> <claimed ms> <owner>`
rmq:{q}:jobs:lease:<id>  stream  unsettled jobs of a lease; entry `<index + 1>-0`
rmq:{q}:jobs:done:<id>   string  record that a lease under an id chosen by the caller was acked whole; expires
rmq:{q}:jobs:fence       string  counter of fencing numbers
rmq:{q}:jobs:unique:<d>  string  128-bit digest of a job id or deduplication key -> nonce of the adding call; expires
rmq:{q}:jobs:result:<id> stream  one entry, a job's return value or the reason it became a dead letter; expires
rmq:{q}:jobs:events      stream  job events, fields `event` and `ids`; the only stream that is trimmed
rmq:{q}:jobs:paused      string  last entry delivered before the queue was paused; absent unless it is paused
rmq:{q}:jobs:alarm       list    a token, pushed when something becomes due sooner than all before; expires
rmq:{q}:jobs:repeats     zset    key of a repeatable job -> when it fires next, ms
rmq:{q}:jobs:repeat      hash    key -> its rule, JSON
rmq:{q}:jobs:fired       hash    key -> how often it fired
rmq:{q}:jobs:history     hash    counts per minute and hour, totals and marks; expires
rmq:{q}:jobs:import:<n>  string  progress of an import; expires
rmq:{q}:jobs:slot:<c>/<n> string last call and reply of a client's call slot; expires
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rmq_core.queue.keys import fill

GROUP = b"jobs"


@dataclass(frozen=True, slots=True)
class JobsKeys:
    """The keys of one queue."""

    name: str
    prefix: bytes = field(init=False)
    ready: bytes = field(init=False)
    delayed: bytes = field(init=False)
    later: bytes = field(init=False)
    dead: bytes = field(init=False)
    leases: bytes = field(init=False)
    heads: bytes = field(init=False)
    fence: bytes = field(init=False)
    events: bytes = field(init=False)
    alarm: bytes = field(init=False)
    repeats: bytes = field(init=False)
    repeat: bytes = field(init=False)
    fired: bytes = field(init=False)
    paused: bytes = field(init=False)
    history: bytes = field(init=False)

    def __post_init__(self) -> None:
        fill(self, "rmq:{{{}}}:jobs:")

    def lease(self, lease_id: str) -> bytes:
        return b"%blease:%b" % (self.prefix, lease_id.encode())

    def done(self, lease_id: str) -> bytes:
        return b"%bdone:%b" % (self.prefix, lease_id.encode())

    def unique(self, digest: bytes) -> bytes:
        return b"%bunique:%b" % (self.prefix, digest)

    def result(self, job_id: str) -> bytes:
        return b"%bresult:%b" % (self.prefix, job_id.encode())
