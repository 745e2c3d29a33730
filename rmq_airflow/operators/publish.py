"""Publish work items from a DAG.

Law: payloads stay out of XCom and out of the rendered fields that Airflow stores. The returned report has the same size
for one message and for a million.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from airflow.providers.common.compat.sdk import Asset, AssetAlias, BaseOperator, Context, XComArg, determine_kwargs

from rmq_airflow.assets.queue import queue_asset
from rmq_airflow.batch import check_discipline, check_queue, is_template
from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.identity import TaskIdentity
from rmq_airflow.lineage import QueueLineageMixin
from rmq_airflow.links import LinkedTask
from rmq_airflow.metrics import report_counts, trace_headers
from rmq_airflow.partitions import PartitionBy, apart, check_partitions
from rmq_core import ConfigurationError, LeasedConfig, RedisMessageQueueError, WorkQueue
from rmq_core.messages import NewMessage
from rmq_core.orchestrate import kept_open
from rmq_core.protocol import require
from rmq_core.reports import PublishReport

if TYPE_CHECKING:
    import jinja2

CHUNK = 10_000  # payloads held in memory at once


COUNTS: tuple[Literal["accepted", "duplicates", "dropped"], ...] = ("accepted", "duplicates", "dropped")


class PublishedReport(TypedDict):
    """The return value of the operator."""

    queue: str
    accepted: int
    duplicates: int
    dropped: int


class RedisQueuePublishOperator(LinkedTask, QueueLineageMixin, BaseOperator):
    """
    Publish messages to a queue.

    Each message carries the headers ``airflow-dag-id``, ``airflow-run-id``, ``airflow-task-id`` and
    ``airflow-map-index``, and ``traceparent`` when tracing is on, if the queue's discipline has headers. A retry
    publishes everything again: pass ``once``, or deduplicate, if that must not happen. If messages were accepted, the
    operator emits the queue's asset event, for DAGs that wait for it; a retry emits it for duplicates, too.

    Returns ``{"queue", "accepted", "duplicates", "dropped"}``.

    .. seealso:: :ref:`howto/operator:RedisQueuePublishOperator`

    :param redis_queue: the queue to publish to (templated)
    :param messages: a list of payloads, an XCom that holds one, or a function that returns any iterable of them, of any
        length; the function may take arguments named after entries of the task's context (templated)
    :param dedup_key: a function that returns the deduplication key of a payload; by default, with
        ``queue_config.dedup``, the key is the payload's content
    :param delay: seconds or timedelta before the messages become ready
    :param headers: additional headers of the messages (templated)
    :param group: the group of the messages, such as a tenant or a table, in a queue that has groups (templated); or a
        function that returns the group of a payload
    :param priority: 0 to 9, of which 9 comes first, in a queue that has groups without limit
    :param expires: seconds, timedelta or datetime, in a queue that has groups: a message that nobody has claimed by
        then becomes a dead letter
    :param publication: what the messages are a part of, in a queue that has groups, such as ``{{ run_id }}``; a
        RedisQueueSensor with this ``publication`` waits until all of it is done (templated)
    :param once: publish all messages in one step when all were read, and nothing again in a retry; a task that a user
        clears publishes again. In the report, messages of a repetition are ``duplicates``. Needs a leased queue that is
        not in shards, and excludes ``delay`` and ``dedup_key``
    :param partition_by: a function that returns the partition of a payload, which is published to the queue
        ``<redis_queue>/<partition>``; the event of ``asset``, which must be an Asset, carries the partition keys. All
        payloads are read and sorted before the first is published, so a partition without a valid name fails the task
        while nothing is published
    :param asset: the asset whose event to emit: by default the queue's own, through the AssetAlias
        ``rmq:<redis_queue_conn_id>/<redis_queue>`` if neither is templated; or an AssetAlias or Asset that you define;
        None emits no event
    :param queue_config: deduplication, capacity and so on; by default those of the connection
    :param redis_queue_conn_id: connection of type ``redis_queue`` (templated)
    """

    template_fields: Sequence[str] = (
        "redis_queue", "messages", "headers", "group", "publication", "redis_queue_conn_id",
    )  # fmt: skip
    queue_is = "output"

    def __init__(
        self,
        *,
        redis_queue: str,
        messages: Iterable[Any] | Callable[..., Iterable[Any]] | XComArg,
        dedup_key: Callable[[Any], str] | None = None,
        delay: timedelta | float | None = None,
        headers: Mapping[str, str] | None = None,
        group: str | Callable[[Any], str] | None = None,
        priority: int | None = None,
        expires: timedelta | float | datetime | None = None,
        publication: str | None = None,
        once: bool = False,
        partition_by: PartitionBy | None = None,
        asset: Asset | AssetAlias | Literal["queue"] | None = "queue",
        queue_config: LeasedConfig | None = None,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        if isinstance(messages, Iterator):
            raise ConfigurationError(
                "`messages` is an iterator, which a retry could not read again; pass the function that makes it"
            )
        if dedup_key is not None and not callable(dedup_key):
            raise ConfigurationError("`dedup_key` must be a function from a payload to its key")
        if once and (delay is not None or dedup_key is not None):
            raise ConfigurationError("`once` already publishes no message twice: leave `delay` and `dedup_key` out")
        check_queue(redis_queue, queue_config)
        check_partitions(partition_by, asset)
        super().__init__(**kwargs)
        self.asset = _own_alias(redis_queue_conn_id, redis_queue) if asset == "queue" else asset
        if self.asset is not None:
            self.outlets = [*self.outlets, self.asset]
        self.redis_queue = redis_queue
        self.messages = messages
        self.dedup_key = dedup_key
        self.delay = delay
        self.headers = headers
        self.group = group
        self.priority = priority
        self.expires = expires
        self.publication = publication
        self.once = once
        self.partition_by = partition_by
        self.queue_config = queue_config
        self.redis_queue_conn_id = redis_queue_conn_id

    def execute(self, context: Context) -> PublishedReport:
        """Publish in chunks. Raises QueueFull or PayloadError at the first chunk that is refused."""
        total: PublishedReport = {"queue": self.redis_queue, "accepted": 0, "duplicates": 0, "dropped": 0}
        hook = RedisQueueHook(self.redis_queue_conn_id)
        keys: set[str] = set()
        try:
            if self.once:
                self._publish_once(hook, context, total, keys)
            elif self.partition_by is None:
                self._publish(hook, self.redis_queue, _chunks(self._payloads(context)), context, total)
            else:
                self._publish_apart(self.partition_by, hook, context, total, keys)
        finally:
            self.log.info("Published: %s", total)
        if self.asset is not None and _emits(total, context):
            self._emit(self.asset, hook, context, {"accepted": total["accepted"]})
            if keys:
                context["outlet_events"][self.asset].add_partitions(sorted(keys))
        return total

    def _publish_apart(
        self, partition_by: PartitionBy, hook: RedisQueueHook, context: Context, total: PublishedReport, keys: set[str]
    ) -> None:
        for key, payloads in apart(self.redis_queue, partition_by, self._payloads(context)).items():
            part: PublishedReport = {"queue": self.redis_queue, "accepted": 0, "duplicates": 0, "dropped": 0}
            try:
                self._publish(hook, f"{self.redis_queue}/{key}", _chunks(payloads), context, part)
            finally:
                for name in COUNTS:
                    total[name] += part[name]
            if _emits(part, context):
                keys.add(key)

    def _publish_once(self, hook: RedisQueueHook, context: Context, total: PublishedReport, keys: set[str]) -> None:
        """Publish by the outbox of the task; of partitions, one after the other."""
        payloads = self._payloads(context)
        parts: dict[str, Iterable[Any]] = (
            {"": payloads} if self.partition_by is None else dict(apart(self.redis_queue, self.partition_by, payloads))
        )
        for key, some in parts.items():
            name = f"{self.redis_queue}/{key}" if key else self.redis_queue
            with hook.outbox(context, name, config=self.queue_config) as outbox:
                for chunk in _chunks(some):
                    outbox.publish(
                        _grouped(chunk, self.group) if callable(self.group) else chunk,
                        headers=self.headers, group=None if callable(self.group) else self.group,
                        priority=self.priority, publication=self.publication, expires=self.expires,
                    )  # fmt: skip
                if not outbox.count:
                    outbox.publish([], publication=self.publication)
            total["accepted" if outbox.published else "duplicates"] += outbox.count
            report_counts(self, name, published=outbox.count if outbox.published else 0)
            if key and (outbox.published or context["ti"].try_number > 1):
                keys.add(key)

    def _check(self, queue: WorkQueue) -> None:
        check_discipline(queue)
        asked = {"delay": self.delay, "dedup": self.dedup_key, "headers": self.headers}
        require(queue, type(self).__name__, *(name for name, value in asked.items() if value))
        if any(value is not None for value in (self.group, self.priority, self.publication, self.expires)):
            require(queue, type(self).__name__, "groups")

    def _publish(
        self, hook: RedisQueueHook, name: str, chunks: Iterable[list[Any]], context: Context, total: PublishedReport
    ) -> None:
        with closing(hook.work_queue(name, self.queue_config)) as queue:
            self._check(queue)
            spans = {} if hook.traced else trace_headers()  # a traced queue adds headers for the span that it makes
            try:
                with kept_open(queue, self.publication):
                    self._publish_to(queue, chunks, {**TaskIdentity.of(context).headers, **spans}, total)
            finally:
                refused = {"duplicates": total["duplicates"], "dropped": total["dropped"]}
                report_counts(self, name, published=total["accepted"], **refused)

    def _publish_to(
        self, queue: WorkQueue, chunks: Iterable[list[Any]], own: Mapping[str, str], total: PublishedReport
    ) -> None:
        headers = {**own, **(self.headers or {})} if queue.capabilities.headers else None
        wanted = {"priority": self.priority, "expires": self.expires, "publication": self.publication}
        turn: dict[str, Any] = {name: given for name, given in wanted.items() if given is not None}
        if self.group is not None and not callable(self.group):
            turn["group"] = self.group
        publish_many: Any = partial(
            queue.publish_many, dedup_key=self.dedup_key, delay=self.delay, headers=headers, **turn
        )
        for chunk in chunks:
            try:
                report = publish_many(_grouped(chunk, self.group) if callable(self.group) else chunk)
            except RedisMessageQueueError as error:
                _add(total, cast("PublishReport | None", error.report))
                raise
            _add(total, report)

    def _emit(self, asset: Asset | AssetAlias, hook: RedisQueueHook, context: Context, extra: dict[str, Any]) -> None:
        event = context["outlet_events"][asset]
        if isinstance(asset, AssetAlias):
            event.add(queue_asset(hook.settings, self.redis_queue), extra)
        else:
            event.extra.update(extra)

    def _payloads(self, context: Context) -> Iterable[Any]:
        messages: Any = self.messages
        if callable(messages):
            messages = messages(**determine_kwargs(messages, (), dict(context)))
        if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
            raise ConfigurationError(
                f"`messages` must be a list of payloads, not {type(messages).__name__}: put a single one into a list, "
                "and pass another task's `.output`, not a template, which renders to a string"
            )
        return messages

    def _do_render_template_fields(
        self,
        parent: Any,
        template_fields: Iterable[str],
        context: Context,
        jinja_env: jinja2.Environment,
        seen_oids: set[int],
    ) -> None:
        # Airflow would call a function now, and would store rendered payloads in its database, visible to every user.
        # Payloads without a template are not rendered: rendering takes a hundred times as long as publishing.
        called_later = callable(self.messages)
        left_out = {
            name for name, value in (("messages", self.messages), ("group", self.group)) if not _templated(value)
        }
        fields = [name for name in template_fields if name not in left_out]
        super()._do_render_template_fields(parent, fields, context, jinja_env, seen_oids)
        if not called_later:
            self.messages = Unshown.wrapping(self.messages)


def _grouped(payloads: Iterable[Any], group_of: Callable[[Any], str]) -> Iterable[NewMessage]:
    for payload in payloads:
        message = payload if isinstance(payload, NewMessage) else NewMessage(payload)
        yield message if message.group is not None else message._replace(group=group_of(message.payload))


class Unshown:
    """An iterable that Airflow's UI shows as its size only."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = values

    @classmethod
    def wrapping(cls, value: Any) -> Any:
        """Wrap `value`; return it unchanged if wrapping would hide a mistake, such as a string instead of a list."""
        if isinstance(value, str | bytes | Mapping | cls) or not isinstance(value, Iterable):
            return value
        return cls(value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __str__(self) -> str:
        size = len(self._values) if isinstance(self._values, Sequence) else "some"
        return f"<{size} payloads>"


def _templated(value: Any) -> bool:
    """Return whether a value contains anything that Airflow must render; a function does not count."""
    if isinstance(value, str):
        return is_template(value)
    if isinstance(value, Mapping):
        return any(map(_templated, value.values()))
    if isinstance(value, list | tuple | set):
        return any(map(_templated, value))
    return not (value is None or callable(value) or isinstance(value, int | float | bytes))


def _own_alias(connection: str, queue: str) -> AssetAlias | None:
    name = f"{connection}/{queue}"
    return None if is_template(name) else AssetAlias(name=f"rmq:{name}")


def _emits(total: PublishedReport, context: Context) -> bool:
    """Return whether to emit the asset event.

    In a retry, duplicates count too: the try that published them may have died before it emitted the event.
    """
    return total["accepted"] > 0 or (total["duplicates"] > 0 and context["ti"].try_number > 1)


def _add(total: PublishedReport, report: PublishReport | None) -> None:
    if report is not None:
        total["accepted"] += report.accepted
        total["duplicates"] += report.duplicates
        total["dropped"] += report.dropped


def _chunks(payloads: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(payloads)
    while chunk := list(itertools.islice(iterator, CHUNK)):
        yield chunk
