"""The targets of the figures on Redis 7.0, or on the server in the name; figures without an entry have no target."""

from __future__ import annotations

from benchmarks.figures import Target


def at_least(bound: float) -> Target:
    return Target(bound)


def at_most(bound: float) -> Target:
    return Target(bound, most=True)


_LOOPS = {
    "publish": at_least(0.80),
    "deduplicated publish": at_least(0.75),
    "claim + ack": at_least(0.38),
    "claim_next loop": at_least(0.70),
}
_BATCHES = {
    "publish_many": at_least(0.9),
    "deduplicated publish_many": at_least(0.41),
    "claim + ack of a batch": at_least(3),
    # 100,000 messages/s where the pipelined LPUSH does 230,000
    "no-op handler fed by process": at_least(0.435),
}
_WAKE_UPS = {"wake-up to message in hand, p50": at_most(1.6), "wake-up to message in hand, p99": at_most(2.5)}
_FACADES = ("sync", "async")

TARGETS: dict[str, Target] = {
    **{f"{name}, {facade}": target for name, target in (_LOOPS | _BATCHES | _WAKE_UPS).items() for facade in _FACADES},
    "idle waiter, client commands": at_most(1),
    "idle WaitHub of 100 waits, client commands": at_most(1),
    "anonymous lease of one over the bare list, 7.0": at_most(480),
    "anonymous lease of one over the bare list, 8.6": at_most(320),
    "message in a lease of 1000 over the bare list, 7.0": at_most(15),
    "message in a lease of 1000 over the bare list, 8.6": at_most(15),
    "deduplication key, 7.0": at_most(155),
    "deduplication key, 8.6": at_most(155),
    "claim at 10⁶ in flight in one lease": at_most(1.25),
    "extend at 10⁶ in flight in one lease": at_most(1.25),
    "ack at 10⁶ in flight in one lease": at_most(1.25),
    "claim at 10⁶ in flight in many leases": at_most(1.25),
    "extend at 10⁶ in flight in many leases": at_most(1.25),
    "ack at 10⁶ in flight in many leases": at_most(1.25),
    "chunks of a lease of 10⁶, p99": at_most(10),
}

_SCRIPTS = (
    "the time goes into safety. `return 1` takes the server 1 µs, the script of a claim takes about 20: 6 for"
    " its 25 keys and arguments, 5 for what it reads (call slot, clock, waiters, expired leases, due delays), and 9"
    " for what it writes (fencing number, lease, deadline, call slot). The caller spends 25 to 30 µs on a claim, where"
    " redis-py spends 20 on its EVALSHA. The longer a round trip takes, the less this affects the ratio."
)
_WAKING = (
    "between the publisher's send and the waiter's message the server runs two scripts, publish and claim, where the"
    " bare waiter needs one LPUSH. Both scripts, and the Python that turns the reply into a lease, run after a sleep,"
    " with cold caches, at several times their usual cost. Reduced scripts, which only push, pop and write the lease"
    " and the call slot and no longer keep the queue's guarantees, still took 1.7 to 2.0 times a BLMOVE per wake-up."
)
_BATCH = (
    "of the 1.3 ms that claiming and acking a thousand messages takes, the server is busy for 1.0. Each message becomes"
    " a Lua string when it leaves `ready`, a value of Redis when it enters the lease, and a part of the reply."
)
_CHUNK = (
    "this is a time and not a ratio, so it depends on the machine: 8.0 ms where the bare EVALSHA loop reaches 8,800"
    " calls a second, 13.8 ms where it reaches 4,100. A chunk that gives back, promotes or rewrites has 1,000 messages."
)
_COLUMNS = (
    "of 0.8 µs a message, the client waits 0.23 for the server, which answers one request of 8,000 messages after the"
    " other; hiredis makes a `bytes` of each in 0.1, and splitting them together in Arrow takes 0.45."
)
REASONS: dict[str, str] = {
    "read_arrow, 200,000 at a time": _COLUMNS,
    "chunks of a lease of 10⁶, p99": _CHUNK,
    "claim + ack of a batch, sync": _BATCH,
    **{
        f"{name}, {facade}": text
        for name, text in (
            ("publish", _SCRIPTS),
            ("deduplicated publish", _SCRIPTS),
            ("claim + ack", _SCRIPTS),
            ("claim_next loop", _SCRIPTS),
            ("wake-up to message in hand, p50", _WAKING),
        )
        for facade in _FACADES
    },
}
"""The reason, found by a profile, why a figure may miss its target."""
