"""`LeasedQueue`, its list of operations, its `admin`, and functions that inspect many queues."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Generic

from rmq_core.admin.configuring import Configured
from rmq_core.admin.history import Recorded, read_journal
from rmq_core.admin.verbs import Admin
from rmq_core.connection.clients import is_cluster, opened
from rmq_core.envelope.codec import P
from rmq_core.events import OnEvent
from rmq_core.exchange import Exchange
from rmq_core.kernel.base import Method, Part, QueueBase, QueuePart, W
from rmq_core.kernel.keys import LeasedKeys
from rmq_core.kernel.transfer import Importable
from rmq_core.leased import (
    claiming,
    explaining,
    grouping,
    inspecting,
    managing,
    publications,
    publishing,
    settling,
    surveying,
    transfer,
)
from rmq_core.leased.config import CAPABILITIES, DISCIPLINE, LeasedConfig
from rmq_core.leased.state import LeasedEngine
from rmq_core.messages import Lease
from rmq_core.policy import chosen_groups
from rmq_core.protocol import open_async_queue, open_queue
from rmq_core.queue import LargeLeaseFacade
from rmq_core.reports import Backlog
from rmq_core.twin import Blocking, awaited, twins


class LeasedTools(QueuePart[LeasedEngine, Any], Importable):
    """What exports, imports and integrations call."""

    register_consumer = Method(claiming.register_consumer)
    renew_consumer = Method(claiming.renew_consumer)
    export_page = Method(transfer.export_page)
    stored_states = transfer.STATES
    _import_entry = staticmethod(transfer.import_entry)
    import_chunk = Method(transfer.import_chunk)
    reject = Method(settling.reject)
    backlogs_by_group = Method(grouping.backlogs_by_group)


class LeasedMethods(QueueBase[LeasedEngine], Generic[P]):
    """The methods of LeasedQueue and AsyncLeasedQueue."""

    discipline = DISCIPLINE
    capabilities = CAPABILITIES
    _tools = Part(LeasedTools)

    @staticmethod
    def _extend_all(engine: LeasedEngine, leases: Sequence[tuple[Lease, float | None]]) -> Exchange[list[bool]]:
        return engine.routed(settling.extend_all)(engine, leases)

    @staticmethod
    def _leave(engine: LeasedEngine) -> Exchange[None]:
        return engine.routed(managing.release_unanswered)(engine)

    def __init__(
        self, redis: Any, name: str, config: LeasedConfig[P] | None = None, *, on_event: OnEvent | None = None
    ) -> None:
        super().__init__(redis, LeasedEngine(LeasedKeys(name), config or LeasedConfig(), on_event))

    @property
    def config(self) -> LeasedConfig[P]:
        """The settings in force: after the first call, those stored with the queue in place of the program's own."""
        return self._engine.config

    publish = Method(publishing.publish)
    publish_many = Method(publishing.publish_many)
    stage = Method(publishing.stage)
    publish_staged = Method(publishing.publish_staged)
    drop_staged = Method(publishing.drop_staged)
    publication = Method(publications.publication)
    open_publication = Method(publications.open_publication)
    close_publication = Method(publications.close_publication)
    claim = Method(claiming.claim)
    claim_next = Method(claiming.claim_next)
    adopt = Method(claiming.adopt)
    join = Method(claiming.join)
    extend = Method(settling.extend)
    ack = Method(settling.ack)
    nack = Method(settling.nack)
    release = Method(settling.release)
    read = Method(inspecting.read)
    read_arrow = Method(inspecting.read_arrow)
    backlog = Method(inspecting.backlog)
    stats = Method(inspecting.stats)
    lease_info = Method(inspecting.lease_info)
    settled = Method(inspecting.settled)


class LeasedAdmin(Recorded, Configured, Admin[LeasedEngine, W]):
    """What operators do with a LeasedQueue: `queue.admin`."""

    release_lease = Method(managing.release_lease)
    release_leases = Method(managing.release_leases)
    leases = Method(inspecting.leases)
    groups = Method(grouping.groups)
    publications = Method(grouping.publications)
    shards = Method(inspecting.shards)
    peek = Method(inspecting.peek)
    dead_letters = Method(inspecting.dead_letters)
    browse = Method(inspecting.browse)
    browse_lease = Method(inspecting.browse_lease)
    redrive = Method(managing.redrive)
    redrive_some = Method(managing.redrive_some)
    edit = Method(managing.edit)
    discard = Method(managing.discard)
    dead_reasons = Method(managing.dead_reasons)
    search = Method(managing.search)
    purge = Method(managing.purge)
    run_now = Method(managing.run_now)
    expire_lease = Method(managing.expire_lease)
    expire_leases = Method(managing.expire_leases)
    pause = Method(managing.pause)
    resume = Method(managing.resume)
    cancel = Method(managing.cancel)
    dead_letter = Method(managing.dead_letter)
    forget = Method(managing.forget)
    remembered = Method(managing.remembered)
    unregister = Method(managing.unregister)
    why = Method(explaining.why)
    journal = Method(read_journal)
    server_time = Method(inspecting.server_time)


class LeasedQueue(LeasedMethods[P], LargeLeaseFacade[LeasedEngine, P]):
    """A queue whose messages are handed out under leases. Threads may share it; it survives a fork.

    `redis` is a redis-py client, a RedisSettings or a URL; the queue closes only a client it made itself. `on_event`
    gets a QueueEvent after each step. `LeasedQueue[Order]` has messages whose payload is an Order, which
    `LeasedConfig(codec=Typed(Order))` reads.
    """

    admin = Part(LeasedAdmin[Blocking])


async def _holding(
    asynchronous: bool, redis: Any, names: Iterable[str], config: LeasedConfig | None = None
) -> list[str]:
    """Return the names of the leased queues that have ready, delayed or leased messages, in the given order.

    `redis` is a client, RedisSettings or a URL. Only the retry budget of `config` is used. Raises QueueUnavailable.
    """
    async with opened(redis, asynchronous=asynchronous) as client:
        parts = surveying.parts(list(names), apart=is_cluster(client))
        return [
            name for part in parts for name in await ask(asynchronous, client, part, config, surveying.holding(part))
        ]


async def _backlogs(
    asynchronous: bool,
    redis: Any,
    names: Iterable[str],
    config: LeasedConfig | None = None,
    *,
    groups: Collection[str] | None = None,
) -> dict[str, Backlog]:
    """Return the backlog of each of these leased queues, as `LeasedQueue.backlog` reports it for one.

    Expired leases are reclaimed first. `redis` is a client, RedisSettings or a URL; `config` should be the one that all
    users of the queues share. groups: only the messages of these groups count. Raises QueueUnavailable, and
    ConfigurationError for `groups` where a queue has none.
    """
    found: dict[str, Backlog] = {}
    chosen = None if groups is None else chosen_groups(groups)
    async with opened(redis, asynchronous=asynchronous) as client:
        for part in surveying.parts(list(names), apart=is_cluster(client)):
            asked = surveying.glances(part, config or LeasedConfig(), chosen)
            for name, seen in zip(part, await ask(asynchronous, client, part, config, asked), strict=True):
                late = seen.late
                found[name] = await _reclaimed(asynchronous, client, name, config, groups) if late else seen.backlog
    return found


async def _reclaimed(
    asynchronous: bool, client: Any, name: str, config: LeasedConfig | None, groups: Collection[str] | None
) -> Backlog:
    queue: Any = (open_async_queue if asynchronous else open_queue)(client, name, config=config)
    try:
        found: Backlog = await awaited(queue.backlog(groups=groups))
    finally:
        await awaited(queue.close())
    return found


holding, async_holding = twins(_holding)
backlogs, async_backlogs = twins(_backlogs)


async def ask(
    asynchronous: bool, client: Any, names: Sequence[str], config: LeasedConfig | None, exchange: Exchange[Any]
) -> Any:
    """Run an exchange about queues that one driver reaches."""
    from rmq_core.exchange.public import async_driver, sync_driver  # loads redis-py; importing this must not

    engine = LeasedEngine(LeasedKeys(names[0]), config or LeasedConfig())
    driver: Any = (async_driver if asynchronous else sync_driver)(client, engine.prefix, engine.retry_budget_s)
    try:
        return await awaited(driver.run(exchange))
    finally:
        await awaited(driver.close())
