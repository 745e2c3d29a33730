"""The keys of a leased queue in Redis, read one by one without the library, in a form that can be compared."""

from __future__ import annotations

from typing import Any

import redis

from rmq_core.envelope import codec
from tests.core.leased.values import Shape

LISTS = ("ready", "dead", "completed", "failed")


def shape(envelope: bytes) -> Shape:
    """Return id, stored deliveries and failure kinds of a message, and the isolation in its newest history line."""
    parts = codec.split(envelope)
    lines = parts.history.decode().splitlines()
    _, _, text = lines[-1].partition("\x1f") if lines else ("", "", "")
    failures, group, most, shared = map(int, text.split()) if text else (0, 0, 0, 0)
    mark = (failures, group, most, shared) if text else None
    return parts.id, parts.deliveries, tuple(line.split("\t")[0] for line in lines), mark


def bits(bitmap: bytes | None) -> set[int]:
    """Return the indexes whose bits are set in a bitmap."""
    return {8 * place + bit for place, byte in enumerate(bitmap or b"") for bit in range(8) if byte & 0x80 >> bit}


class View:
    """One queue's keys; `read` returns everything relevant except the state of waits and call slots."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        self.client = client
        self.prefix = f"rmq:{{{name}}}:"

    def key(self, *parts: str) -> str:
        """Return a key of the queue."""
        return self.prefix + ":".join(parts)

    def read(self) -> dict[str, Any]:
        """Return lists in the order of the words: ready as it will be claimed, the others newest first."""
        pipeline = self.client.pipeline(transaction=True)
        for name in LISTS:
            pipeline.lrange(self.key(name), 0, -1)
        pipeline.zrange(self.key("delayed"), 0, -1, withscores=True)
        pipeline.zrange(self.key("leases"), 0, -1)
        pipeline.keys(self.key("*"))
        ready, dead, completed, failed, delayed, leases, keys = pipeline.execute()
        names = {key.removeprefix(self.prefix.encode()).decode(errors="replace") for key in keys}
        return {
            "ready": [shape(envelope) for envelope in ready],
            "delayed": {shape(envelope) for envelope, score in delayed if score >= 0},
            "isolated": {(-int(score), shape(envelope)) for envelope, score in delayed if score < 0},
            "dead": [shape(envelope) for envelope in dead],
            "completed": [shape(envelope) for envelope in completed],
            "failed": [shape(envelope) for envelope in failed],
            "leases": {lease_id.decode(): self._lease(lease_id.decode()) for lease_id in leases},
            "done": {name[5:]: self._done(name[5:]) for name in names if name.startswith("done:")},
            "strays": _strays(names, {lease_id.decode() for lease_id in leases}),
        }

    def _lease(self, lease_id: str) -> tuple[Any, ...]:
        head, *envelopes = self.client.lrange(self.key("lease", lease_id), 0, -1)
        settled = self.client.get(self.key("settled", lease_id))
        token, _, _, takeovers, returned, owner = head.decode().split(" ", 5)
        return token, owner, int(takeovers), int(returned), [shape(envelope) for envelope in envelopes], bits(settled)

    def _done(self, lease_id: str) -> tuple[int, str]:
        acked, _, owner = self.client.get(self.key("done", lease_id)).decode().split(" ", 2)
        return int(acked), owner


def _strays(names: set[str], leases: set[str]) -> set[str]:
    """Return keys of leases that are missing in the list of leases, which no operation would ever find again."""
    held = {name for name in names if name.startswith(("lease:", "settled:"))}
    return {name for name in held if name.split(":", 1)[1] not in leases}
