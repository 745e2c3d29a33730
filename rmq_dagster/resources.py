"""`RedisQueueResource`: connections are opened on first use, one for each queue, and closed with the run or the tick.

It starts no thread by itself and claims nothing by itself, so that a sensor tick may use it. Credentials appear in no
repr, log or tag: passwords belong in an `EnvVar`, because Dagster shows literal resource configuration on its page.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field, PrivateAttr

from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue, RedisSettings, WorkQueue, open_queue
from rmq_core.orchestrate import OnSettled, Outbox, publishing_as
from rmq_core.reports import PublishReport, QueueStats
from rmq_core.tracing import traced
from rmq_dagster.partitions import QueuePartitions, claimed_from
from rmq_dagster.runs import identity
from rmq_dagster.runs.claiming import ClaimedBatch, Terms, working
from rmq_dagster.runs.publishing import collecting, headers_of
from rmq_dagster.runs.requested import repository_of, sensor_of
from rmq_dagster.runs.requesting import Doorbell
from rmq_dagster.runs.submitting import SubmittedBatch, submitting

# Dagster abandons a tick after 60 s but lets its body run on: end well before that.
TICK_RETRY_BUDGET_S = 4
TICK_TIMEOUT_S = 2
REPEAT_AFTER_S = 600
KEPT_OPEN = 32
SECRET: dict[str, Any] = {"dagster__is_secret": True}


class RedisQueueResource(dg.ConfigurableResource[LeasedQueue]):
    """A connection to the Redis that holds the queues.

    >>> redis_queue = RedisQueueResource(url="redis://cache:6379/0", password=dg.EnvVar("REDIS_PASSWORD"))
    """

    url: str = Field(
        repr=False,
        description="redis://, rediss://, unix://, sentinel://, redis+cluster:// or embedded://PATH."
        " Credentials belong in the fields below, not in the URL.",
    )
    username: str | None = Field(default=None, description="ACL user; by default the user `default`.")
    password: str | None = Field(
        default=None,
        repr=False,
        description='Password of the user: EnvVar("REDIS_PASSWORD").',
        json_schema_extra=SECRET,
    )
    sentinel_username: str | None = Field(default=None, description="ACL user of the sentinels of a sentinel:// URL.")
    sentinel_password: str | None = Field(
        default=None,
        repr=False,
        description='Password of the sentinels: EnvVar("REDIS_SENTINEL_PASSWORD").',
        json_schema_extra=SECRET,
    )
    lease_seconds: float = Field(
        default=300,
        description="How long a claim holds its messages unless its heartbeat extends it. This field and the next two"
        " apply to queues that are opened without a `config` of their own.",
    )
    max_deliveries: int = Field(default=10, description="A message that failed this many times becomes a dead letter.")
    retry_budget_seconds: float = Field(
        default=30, description="How long a call is retried while Redis does not answer; a tick gives up sooner."
    )

    traced: bool = Field(
        default=False,
        description="Make spans of OpenTelemetry when steps publish, claim and settle; needs `rmq[otel]`.",
    )

    _queues: dict[tuple[str, LeasedConfig], LeasedQueue] = PrivateAttr(default_factory=dict)
    _client: Any = PrivateAttr(default=None)
    _run: dg.DagsterRun | None = PrivateAttr(default=None)

    if not TYPE_CHECKING:  # type checkers know the fields from the class

        def __init__(self, **given: Any) -> None:
            """Refuse a name that is no field, which Dagster ignores."""
            # A validator of pydantic would show the other values, passwords too, in its error.
            for name in given.keys() - type(self).model_fields:
                meant = get_close_matches(name, type(self).model_fields, 1)
                hint = f"did you mean {meant[0]}?" if meant else f"its fields are {', '.join(type(self).model_fields)}"
                raise ConfigurationError(f"{name} is no field of {type(self).__name__}; {hint}")
            super().__init__(**given)

    @classmethod
    def _is_dagster_maintained(cls) -> bool:
        return False

    def settings(self) -> RedisSettings:
        """Return the connection settings. Raises `ConfigurationError` when the URL cannot be used."""
        credentials = {name: getattr(self, name) for name in ("sentinel_username", "sentinel_password")}
        return RedisSettings.from_url(self.url, username=self.username, password=self.password, **credentials)

    def config(self) -> LeasedConfig:
        """Return the configuration of queues that are opened without one of their own."""
        return LeasedConfig(
            lease=self.lease_seconds, max_deliveries=self.max_deliveries, retry_budget=self.retry_budget_seconds
        )

    def queue(self, name: str, config: LeasedConfig | None = None) -> LeasedQueue:
        """Return the core's queue `name`, the same object on each call. It is closed together with the resource.

        Peeking, claiming and settling may also reclaim expired leases, so give every user of a queue the same `config`.
        Messages that it publishes in a step carry the headers `dagster-job`, `dagster-run-id` and `dagster-step-key`.
        """
        behaviour = _checked(config) or self.config()
        if self._client is None:
            self._client = self.client()
        if (name, behaviour) not in self._queues:
            self._queues[name, behaviour] = self._made(name, behaviour)
        return self._queues[name, behaviour]

    def _made(self, name: str, behaviour: LeasedConfig) -> LeasedQueue:
        made = LeasedQueue(self._client, name, behaviour)
        publishing_as(made, lambda: headers_of(self._run))
        return traced(made) if self.traced else made

    def client(self, timeout_s: float | None = None) -> Any:
        """Return a new redis-py client, which the caller closes; it waits at most `timeout_s` for Redis to answer."""
        settings = self.settings()
        if timeout_s is not None:
            settings = dataclasses.replace(settings, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
        return settings.client()

    def publish(
        self,
        queue: str,
        payloads: Iterable[Any],
        *,
        dedup_key: Callable[[Any], str] | None = None,
        delay: timedelta | float | None = None,
        headers: Mapping[str, str] | None = None,
        group: str | None = None,
        priority: int | None = None,
        publication: str | None = None,
        expires: timedelta | float | datetime | None = None,
        config: LeasedConfig | None = None,
    ) -> PublishReport:
        """Add messages, with headers that name run and step; the report counts accepted messages and duplicates.

        group, priority, publication, expires (until when they may be claimed): in a queue that has groups; a NewMessage
        may have its own.
        """
        if isinstance(payloads, str | bytes | Mapping):
            raise ConfigurationError("payloads must be an iterable: write [payload] to publish a single one")
        with self._briefly(queue, config) as opened:
            return opened.publish_many(
                payloads, dedup_key=dedup_key, delay=delay, headers=headers, group=group, priority=priority,
                publication=publication, expires=expires,
            )  # fmt: skip

    def outbox(
        self, context: identity.StepContext, queue: str, *, config: LeasedConfig | None = None
    ) -> AbstractContextManager[Outbox]:
        """Collect messages in a block of a step and publish them at its end, once however often the step is retried.

        If the block raises, nothing is published. A retry of the step, or a re-execution of its run, whose block was
        published before publishes nothing. Several blocks of a step count in their order.

        >>> with redis_queue.outbox(context, "invoices") as outbox:
        ...     outbox.publish(invoices)
        """
        return collecting(context, self.queue(queue, config))

    def claimed(
        self,
        context: identity.StepContext,
        queue: str | QueuePartitions,
        *,
        max_messages: int = 1000,
        on_settled: OnSettled = "skip",
        sequential: bool = False,
        config: LeasedConfig | None = None,
        groups: Collection[str] | None = None,
    ) -> AbstractContextManager[ClaimedBatch]:
        """Claim messages for a block of a step: a heartbeat extends the lease meanwhile; the end of the block acks.

        queue: a name, or QueuePartitions, of which the run claims from its own partition.

        The lease is named after root run, step and partition and owned by the run. While Dagster will retry the step or
        the run, an exception keeps the lease, and the retry gets the same messages; the last exception nacks them. A
        cancelled run releases them untouched. `on_settled`: how a re-execution proceeds when its messages are all
        acked: work on no messages ("skip") or claim new ones ("next"). A step that claims one queue several times must
        pass "next" to every claim, or the second raises ConfigurationError. `sequential`: the block settles each
        message before it begins the next; if its process is killed, only the message that was in work counts a failure.
        `groups`: only messages of these groups, in a queue that has groups.

        Yield a value for an IO manager inside the block: `yield dg.Output(value)`. Dagster stores a returned value
        after the block has acked; if that fails, every retry raises dg.Failure, because no messages are left.

        >>> with redis_queue.claimed(context, "flights", max_messages=100) as batch:
        ...     for message in batch: ...
        ...     return dg.MaterializeResult(metadata=batch.metadata)
        """
        name, groups = claimed_from(queue, context, groups)
        return working(context, self.queue(name, config), Terms(max_messages, on_settled, sequential, groups))

    def submitted(
        self,
        context: identity.StepContext,
        queue: str | QueuePartitions,
        *,
        secrets: Mapping[str, str] | None = None,
        max_messages: int = 1000,
        on_settled: OnSettled = "skip",
        ack_unadopted: bool = False,
        config: LeasedConfig | None = None,
    ) -> AbstractContextManager[SubmittedBatch]:
        """Claim messages for a driver that a Pipes client runs in the block; the driver adopts and acks them.

        queue: as for `claimed`.

        The block gives `batch.extras` to the client; the driver opens its Pipes session and calls
        `rmq_spark.adopted_batch`. The step extends the lease until then. `secrets`: for each credential of this
        resource the reference with which the driver finds it, as in `{"password": "env:REDIS_PASSWORD"}`.
        `ack_unadopted`: ack the messages of a driver that never adopted when the block succeeds, for drivers that
        cannot adopt. An exception, a retry and a cancelled run have the same effect as for `claimed`. Raises LeaseLost
        when another holder got the messages, LeftUnsettled when the driver did not adopt or did not settle them, and
        ConfigurationError for a credential without a reference.

        >>> with redis_queue.submitted(context, "flights", secrets={"password": "aws:redis"}) as batch:
        ...     if batch:
        ...         pipes_emr.run(context=context, extras=batch.extras, start_job_run_params=...)
        ...     return dg.MaterializeResult(metadata=batch.metadata)
        """
        name, groups = claimed_from(queue, context)
        terms = Terms(max_messages, on_settled, groups=groups)
        return submitting(
            context, self.queue(name, config), self.settings(), terms, secrets or {}, ack_unadopted=ack_unadopted
        )

    def run_requests(
        self,
        context: dg.SensorEvaluationContext,
        queue: str | QueuePartitions,
        *,
        batch: int = 1,
        max_in_flight_runs: int = 10,
        min_messages: int = 1,
        max_age: timedelta | float | None = None,
        config: LeasedConfig | None = None,
        groups: Collection[str] | None = None,
    ) -> dg.SensorResult:
        """Return the result of a user-written sensor: a request for each run that `queue` needs, or why it needs none.

        It requests one run for each `batch` ready messages, minus the runs of this sensor that are unfinished and have
        yet to claim; there are at most `max_in_flight_runs` of the latter. The runs claim with `claimed` or
        PipesRedisQueueSparkClient, at most `batch` messages each. The leases of ended runs are settled first. The
        sensor manages its cursor itself. The other arguments are those of build_redis_queue_sensor; times are seconds
        or timedelta.

        >>> @dg.sensor(target=loaded)
        ... def work_is_there(context: dg.SensorEvaluationContext, redis_queue: RedisQueueResource) -> dg.SensorResult:
        ...     return redis_queue.run_requests(context, "arrivals", batch=100)
        """
        age = max_age.total_seconds() if isinstance(max_age, timedelta) else max_age
        limits = (batch, max_in_flight_runs, REPEAT_AFTER_S, min_messages, age)
        doorbell = Doorbell(queue, sensor_of(context), *limits, repository=repository_of(context), groups=groups)
        with self.ticking(config) as (redis, peeking):
            return doorbell.answer(context, redis, peeking)

    @contextmanager
    def ticking(self, config: LeasedConfig | None) -> Iterator[tuple[Any, LeasedConfig]]:
        """Yield a client and a queue configuration for a tick; both give up long before Dagster abandons the tick."""
        peeking = dataclasses.replace(_checked(config) or self.config(), retry_budget=TICK_RETRY_BUDGET_S)
        with self.client(TICK_TIMEOUT_S) as redis:
            yield redis, peeking

    def stats(self, queue: str, config: LeasedConfig | None = None) -> QueueStats:
        """Return what a queue holds. It only counts; `queue(name).backlog()` also requeues expired and due messages."""
        with self._briefly(queue, config) as opened:
            return opened.stats()

    @contextmanager
    def _briefly(self, name: str, config: LeasedConfig | None) -> Iterator[LeasedQueue]:
        """Yield a queue; close it if many are open, because each keeps a connection and a client has some hundred."""
        behaviour = _checked(config) or self.config()
        if (name, behaviour) in self._queues or len(self._queues) < KEPT_OPEN:
            yield self.queue(name, config)
            return
        with self._made(name, behaviour) as opened:
            yield opened

    @contextmanager
    def opened(self, name: str, config: LeasedConfig | None, discipline: str) -> Iterator[WorkQueue]:
        """Open a queue of any discipline for reading its numbers, and close it at the end of the block."""
        if discipline == LeasedQueue.discipline:
            with self._briefly(name, config) as queue:
                yield queue
        else:
            with self.client() as redis, closing(open_queue(redis, name, discipline)) as other:
                yield other

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Remember the run, for messages that a thread of a step publishes."""
        self._run = context.run

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002 - Dagster's signature
        """Close the queues and the connection."""
        self.close()

    def close(self) -> None:
        """Close what `queue` opened. Only scripts need it: Dagster closes the resource after a run or a tick."""
        opened, self._queues = self._queues, {}
        client, self._client = self._client, None
        for queue in opened.values():
            queue.close()
        if client is not None:
            client.close()


def resource_in(context: Any, key: str) -> RedisQueueResource:
    """Return the resource that a definition requires under this key, from the context of a step or a tick."""
    resource: RedisQueueResource = getattr(context.resources, key)
    return resource


def _checked(config: LeasedConfig | None) -> LeasedConfig | None:
    if config is None or isinstance(config, LeasedConfig):
        return config
    raise ConfigurationError(
        f"config must be a LeasedConfig, not {type(config).__name__}: runs work under leases, which other disciplines"
        " do not have; open those with rmq_core.open_queue(resource.settings(), ...)"
    )
