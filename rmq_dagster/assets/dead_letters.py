# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""`redis_queue_dead_letters`: the dead letters of a queue as an asset that shows why they failed.

Metadata of Dagster stays in its database, so it names messages by id and never contains their payloads.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import dagster as dg

from rmq_core import LeasedConfig, LeasedQueue, MalformedMessage, Message
from rmq_core.messages import MESSAGE_FIELDS, plain_fields
from rmq_core.reports import Progress, ReasonGroup
from rmq_dagster.assets.queue import about, last_observation, last_version, observable
from rmq_dagster.names import dead_letters_asset_name
from rmq_dagster.resources import resource_in

NEWEST = 20
LETTERS_READ = 20_000  # of them the reasons are counted, so that a tick of the observer takes less than a second
UNKNOWN = "unknown"


def redis_queue_dead_letters(
    queue: str,
    *,
    key: str | Sequence[str] | dg.AssetKey | None = None,
    newest: int = NEWEST,
    config: LeasedConfig | None = None,
    resource_key: str = "redis_queue",
    **asset_options: Any,
) -> dg.AssetsDefinition:
    """Return an observable asset for the dead letters of a queue: how many, why, and a table of the newest.

    Its data version changes when newer ones arrive. The asset's key is `<queue>_dead_letters`, unless `key` is given.
    `asset_options` go to Dagster's AssetSpec: deps, group_name, owners, kinds, tags, automation_condition, ...
    """
    described = {"description": f"The dead letters of the Redis queue {queue!r}.", "kinds": {"redis"}}
    name = dead_letters_asset_name(queue) if key is None else key
    spec = dg.AssetSpec(name, **{**described, **asset_options})

    def observe(context: dg.OpExecutionContext) -> dg.ObserveResult:
        resource = resource_in(context, resource_key)
        return Letters(resource.queue(queue, config), newest).observation(context.instance, spec.key)

    return observable(spec, observe, resource_key)


class Letters:
    """The newest dead letters of a queue."""

    def __init__(self, queue: LeasedQueue, newest: int = NEWEST) -> None:
        self.queue, self.count = queue, queue.stats().dead
        self.newest: list[Message] = []
        with suppress(MalformedMessage):  # it is counted, and its reason is known
            self.newest = queue.admin.dead_letters(newest) if self.count else []

    def observation(self, instance: dg.DagsterInstance, key: dg.AssetKey) -> dg.ObserveResult:
        """Return the reasons of the dead letters, and the newest ones."""
        reasons, read = self.reasons()
        version = self.version(last_version(instance, key))
        return dg.ObserveResult(
            asset_key=key,
            metadata={
                **about(self.queue.name),
                "rmq/dead_letters": self.count,
                "rmq/reasons": table(_REASONS, map(_group, reasons)),
                "rmq/newest": table(NEWEST_COLUMNS, map(letter, self.newest)),
                **({} if read >= self.count else {"rmq/reasons_of_newest": read}),
            },
            data_version=None if version is None else dg.DataVersion(version),
        )

    def changed(self, instance: dg.DagsterInstance, key: dg.AssetKey) -> bool:
        """Return whether the last observation of the asset differs, or there was none."""
        before = last_observation(instance, key)
        known = before.metadata.get("rmq/dead_letters") if before else None
        return (
            known is None or known.value != self.count or self.version(None) not in (None, last_version(instance, key))
        )

    def version(self, before: str | None) -> str | None:
        """Return a version that names the newest dead letter; `before` if there is none, or a newer one was known."""
        if not self.newest:
            return before
        at_ms = int((_failed_at(self.newest[0]) or self.newest[0].enqueued_at).timestamp() * 1000)
        known_ms = (before or "").partition(":")[0]
        return before if known_ms.isdecimal() and int(known_ms) > at_ms else f"{at_ms}:{self.newest[0].id}"

    def reasons(self) -> tuple[list[ReasonGroup], int]:
        """Return the reasons of the newest dead letters, the most frequent first, and how many letters were read."""
        read = 0

        def progress(step: Progress) -> bool:
            nonlocal read
            read = step.scanned
            return read < LETTERS_READ

        groups = self.queue.admin.dead_reasons(progress=progress)
        return groups, max(read, sum(group.count for group in groups))


def table(columns: dict[str, str], records: Iterable[dict[str, Any]]) -> dg.TableMetadataValue:
    """Return a table with these columns, name and type, which may have no record."""
    schema = dg.TableSchema([dg.TableColumn(name, kind) for name, kind in columns.items()])
    return dg.MetadataValue.table([dg.TableRecord(record) for record in records], schema)


_REASONS = {"reason": "string", "count": "int", "oldest": "string", "newest": "string", "example": "string"}
_PLAIN = {field.name: "int" if field.type is int else "string" for field in MESSAGE_FIELDS}
NEWEST_COLUMNS = {**_PLAIN, "failed_at": "string", "reason": "string"}


def _group(group: ReasonGroup) -> dict[str, Any]:
    return {
        "reason": group.reason,
        "count": group.count,
        "oldest": _text(group.oldest),
        "newest": _text(group.newest),
        "example": group.example,
    }


def letter(message: Message) -> dict[str, Any]:
    """Return a dead letter as a record of `NEWEST_COLUMNS`."""
    reason = (message.history[-1].reason or message.history[-1].kind) if message.history else UNKNOWN
    return {**plain_fields(message), "failed_at": _text(_failed_at(message)), "reason": reason}


def _failed_at(message: Message) -> datetime | None:
    return message.history[-1].at if message.history else None


def _text(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat(timespec="seconds")
