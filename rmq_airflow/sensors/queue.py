"""Waiting for work, or until all messages of a publication are done.

Law: a sensor polls and claims nothing, so it can be killed, retried or cleared. Messages may be gone when the
next task claims, so an empty claim succeeds. Every mode returns the same report. With `hand_over` it claims last, on
the worker, under its own lease id, so a retry finds the lease.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, get_args

from airflow.providers.common.compat.sdk import (
    AirflowSensorTimeout,
    Asset,
    BaseSensorOperator,
    Context,
    PokeReturnValue,
    conf,
)
from airflow.triggers.base import BaseTrigger, StartTriggerArgs

from rmq_airflow.batch import (
    ALL,
    MOMENT_S,
    check_bound,
    check_discipline,
    check_groups,
    check_queue,
    check_seconds,
    claim,
    is_template,
    threshold_of,
)
from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.identity import TaskIdentity
from rmq_airflow.lineage import QueueLineageMixin
from rmq_airflow.links import RedisQueueLink
from rmq_airflow.location import check_leased
from rmq_airflow.metrics import report_counts
from rmq_airflow.retries import warn_of_short_lease
from rmq_airflow.triggers.depth import RedisQueueDepthTrigger
from rmq_airflow.triggers.sensor import RedisQueuePublicationTrigger, RedisQueueTrigger
from rmq_airflow.waiting import BacklogReport, bounded, report, report_of, tell_paused
from rmq_core import ConfigurationError, LeasedQueue, RedisMessageQueueError, Unsupported, WorkQueue
from rmq_core.orchestrate import Counted, Handover, check_secrets, counted, has_left
from rmq_core.protocol import require
from rmq_core.reports import Backlog


class RedisQueueSensor(QueueLineageMixin, BaseSensorOperator):
    """
    Wait until a queue holds enough messages, or until all messages of a publication are done.

    Returns ``{"queue", "ready", "oldest_age"}``, in every mode; with ``count``, ``dead`` or ``depth`` replaces
    ``ready``; ``hand_over`` adds ``lease_id``, ``owner``, ``claimed``, ``isolated`` and ``settled_before``; ``secrets``
    adds ``parameters`` and ``fence``. Messages with passed delays or expired leases count as ready. Deferrable mode
    subscribes and wakes at once. Other modes poll every ``poke_interval``, as does any count of dead letters or depth,
    or a discipline other than ``leased``.

    With ``publication`` it returns ``{"queue", "publication", "messages", "acked", "dead", "removed"}``, and the asset
    events of its ``outlets`` have these as ``extra``.

    .. seealso:: :ref:`howto/operator:RedisQueueSensor`

    :param redis_queue: the queue to poll (templated)
    :param min_messages: succeed at this many messages
    :param max_age: or when the oldest ready message is this old: seconds or timedelta
    :param max_messages: report and hand over at most this many
    :param count: what to count: ``ready``, ``dead`` (letters) or ``depth`` (ready + delayed + leased)
    :param publication: succeed when each message that was published under this name is acked, dead or removed; let the
        sensor run after all tasks that publish them. Not with any option that counts or claims (templated)
    :param hand_over: claim the messages for downstream tasks, which must adopt the lease within this time (seconds or
        timedelta; True is ten minutes); add a RedisQueueSettleOperator to requeue a lease that no task adopts
    :param secrets: with ``hand_over``, the task's output also has the parameters with which a driver that another
        operator submits adopts the lease; use them as ``driver_parameters``. For each credential of the connection, a
        reference with which the driver finds it, such as ``{"password": "env:REDIS_PASSWORD"}``; ``{}`` if it has none
    :param deferrable: wait in the triggerer, not in a worker slot
    :param start_from_trigger: start in the triggerer, without a first poll on a worker
    :param end_in_trigger: let the triggerer end the deferred task, so that it needs no worker slot again; listeners and
        OpenLineage do not hear of such an end. A sensor with ``hand_over``, outlets or ``on_success_callback`` ends on
        a worker
    :param redis_queue_conn_id: connection of type ``redis_queue`` (templated)
    :param groups: count, and with ``hand_over`` claim, only messages of these groups, in a queue that has groups
        (templated)
    """

    template_fields: Sequence[str] = ("redis_queue", "publication", "redis_queue_conn_id", "groups")
    operator_extra_links = (RedisQueueLink(),)
    ui_color = "#f5b7b1"

    def __init__(
        self,
        *,
        redis_queue: str,
        min_messages: int = 1,
        max_age: timedelta | float | None = None,
        max_messages: int | None = None,
        count: Counted = "ready",
        publication: str | None = None,
        hand_over: timedelta | float | bool = False,
        secrets: Mapping[str, str] | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        start_from_trigger: bool = False,
        end_in_trigger: bool = True,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
        groups: Collection[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_queue(redis_queue, None)
        self.threshold = threshold_of(min_messages, max_age)
        check_bound("max_messages", max_messages, least=min_messages)
        self.hand_over_s = _hand_over_s(hand_over)
        _check_count(count, max_age, self.hand_over_s, groups)
        if secrets is not None and self.hand_over_s is None:
            raise ConfigurationError("`secrets` requires `hand_over`, the time that a driver has to adopt")
        terms = {"min_messages": min_messages != 1, "max_age": max_age, "max_messages": max_messages, "groups": groups}
        _check_publication(publication, {**terms, "count": count != "ready", "hand_over": self.hand_over_s})
        self.redis_queue = redis_queue
        self.min_messages = min_messages
        self.max_age = max_age
        self.max_messages = max_messages
        self.count = count
        self.publication = publication
        self.hand_over = hand_over
        self.secrets = secrets
        self.deferrable = deferrable
        self.end_in_trigger = end_in_trigger
        self.redis_queue_conn_id = redis_queue_conn_id
        self.groups = check_groups(groups)
        warn_of_short_lease(self, "hand_over", self.hand_over_s)
        self._notifies = True  # whether the discipline notifies, or must be polled
        if start_from_trigger:
            self._start_from_trigger()

    @property
    def driver_parameters(self) -> list[str]:
        """Two templates for the parameters of a driver, which a task that runs after this sensor renders.

        A sensor with `secrets` gives them values: `--rmq-handover` and the handed-over lease as JSON.
        """
        pulled = f"ti.xcom_pull(task_ids={self.task_id!r})['parameters']"
        return [f"{{{{ {pulled}[{number}] }}}}" for number in range(2)]

    def poke(self, context: Context) -> PokeReturnValue:
        """Poll once; with `hand_over`, claim if the threshold is met."""
        if self.hand_over_s is not None:
            return self._poke_and_claim(context)
        if self.publication is not None:
            return self._look_for_end(self.publication, context)
        with closing(self._open()) as queue:
            if self.count != "ready":
                found = self._bounded(counted(self.count, queue.stats()))
                self.log.info("Queue %s: %d %s.", self.redis_queue, found, self.count)
                value = {"queue": self.redis_queue, self.count: found, "oldest_age": None}
                return PokeReturnValue(found >= self.min_messages, value)
            backlog = self._look(queue)
            return PokeReturnValue(self.threshold.met_by(backlog), self._seen(backlog))

    def execute(self, context: Context) -> Any:
        """Poll once; defer below the threshold."""
        with closing(self._open()) as queue:
            check_discipline(queue)
            self._notifies = queue.discipline == "leased"
        if not self.deferrable:
            return super().execute(context)
        poked = self.poke(context)
        if not poked.is_done:
            self._defer(timedelta(seconds=self.timeout))
        return poked.xcom_value

    def execute_complete(self, context: Context, event: Mapping[str, Any] | str) -> Any:
        """Return the trigger's report, or claim; raise RedisMessageQueueError if the trigger failed."""
        if isinstance(event, str):  # `dag.test()` resumes a task that its trigger has ended, without the report
            return self.poke(context).xcom_value
        if event["status"] != "success":
            # Not an AirflowException: `soft_fail` would turn a connection error into a skip.
            raise RedisMessageQueueError(event["message"])
        if self.publication is not None:
            return self._tell_outlets(context, event["report"])
        if self.hand_over_s is None:
            return bounded(event["report"], self.max_messages)
        poked = self.poke(context)
        if not poked.is_done:
            self.log.info("Other consumers have claimed the messages; deferring again.")
            self._defer(self._time_left(context))
        return poked.xcom_value

    def _open(self) -> WorkQueue:
        hook, component = RedisQueueHook(self.redis_queue_conn_id), type(self).__name__
        if self.hand_over_s is not None:
            return hook.queue(self.redis_queue, needed_by=f"{component} with hand_over")
        if self.publication is not None:
            check_leased(hook.discipline, f"publications (needed by {component} with publication)")
        queue = hook.work_queue(self.redis_queue)
        if self.count == "dead":
            require(queue, f"{component} with count='dead'", "dead_letters")
        if self.max_age is not None and queue.capabilities.order != "fifo":
            what = f"age of its messages (needed by {component} with max_age)"
            raise Unsupported(queue.discipline, what, ("leased",))
        if self.groups is not None:
            require(queue, f"{component} with groups", "groups")
        return queue

    def _poke_and_claim(self, context: Context) -> PokeReturnValue:
        identity = TaskIdentity.of(context)
        hook = RedisQueueHook(self.redis_queue_conn_id)
        if self.secrets is not None:
            check_secrets(hook.settings, self.secrets)
        with hook.queue(self.redis_queue) as queue:
            found = has_left(identity, queue)  # before polling: it requeues what a former run held
            backlog = self._look(queue)
            if not (found or self.threshold.met_by(backlog)):
                return PokeReturnValue(False, self._seen(backlog))
            claimed = self._claim(queue, identity, {**self._seen(backlog)})
            return self._with_parameters(claimed, queue, hook)

    def _look_for_end(self, name: str, context: Context) -> PokeReturnValue:
        with RedisQueueHook(self.redis_queue_conn_id).queue(self.redis_queue) as queue:
            self._look(queue)  # a lease that has expired ends only when somebody looks
            found = queue.publication(name)
        counts = report_of(self.redis_queue, found)
        told = f"{found.waiting} waiting, {found.leased} leased, {found.dead} dead, {found.publishers} publishers"
        self.log.info("Publication %s of queue %s: %s.", name, self.redis_queue, told)
        if found.done:
            self._tell_outlets(context, counts)
        elif not (found.messages or found.publishers):
            self.log.warning(
                "Nothing is known of publication %s in queue %s. Does this sensor run after the tasks that publish it?",
                name,
                self.redis_queue,
            )
        return PokeReturnValue(found.done, counts)

    def _tell_outlets(self, context: Context, counts: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the counts of a publication, and add them to the asset events that Airflow emits for the outlets."""
        for outlet in self.outlets:
            if isinstance(outlet, Asset):
                context["outlet_events"][outlet].extra.update(counts)
        return counts

    def _look(self, queue: WorkQueue) -> Backlog:
        chosen: dict[str, Any] = {} if self.groups is None else {"groups": self.groups}
        backlog = queue.backlog(**chosen)
        self.log.info("Queue %s: %d ready, oldest %s s.", self.redis_queue, backlog.ready, backlog.oldest_age)
        if backlog.paused:
            tell_paused(self.log, self.redis_queue, backlog)
        return backlog

    def _seen(self, backlog: Backlog) -> BacklogReport:
        return report(self.redis_queue, backlog._replace(ready=self._bounded(backlog.ready)))

    def _claim(self, queue: LeasedQueue, identity: TaskIdentity, seen: dict[str, Any]) -> PokeReturnValue:
        terms: dict[str, Any] = {"lease": self.hand_over_s, "groups": self.groups}
        claimed = claim(queue, identity, max_messages=self.max_messages or ALL, **terms)
        lease = claimed.lease
        if lease is None:
            return PokeReturnValue(False, seen)
        self.log.info("Handing over %d messages under lease %s, owned by %s.", lease.count, lease.id, lease.owner)
        report_counts(self, self.redis_queue, claimed=lease.count, isolated=claimed.isolated)
        handed = {"lease_id": lease.id, "owner": lease.owner, "claimed": lease.count}
        said = {"isolated": claimed.isolated, "settled_before": claimed.settled_before}
        return PokeReturnValue(True, {**seen, **handed, **said})

    def _with_parameters(self, claimed: PokeReturnValue, queue: LeasedQueue, hook: RedisQueueHook) -> PokeReturnValue:
        """Add to the report of a claim what a driver needs to adopt it, and the fence, which changes when it does."""
        if self.secrets is None or self.hand_over_s is None or not claimed.is_done:
            return claimed
        handed: Any = claimed.xcom_value
        lease_id, owner, adopt_ms = handed["lease_id"], handed["owner"], int(self.hand_over_s * 1000)
        handover = Handover(hook.settings, queue.name, lease_id, owner, queue.config.lease_ms, adopt_ms)
        info = queue.lease_info(lease_id)
        added = {"parameters": handover.parameters(self.secrets), "fence": info and info.fence}
        return PokeReturnValue(True, {**handed, **added})

    def _defer(self, timeout: timedelta) -> NoReturn:
        self.defer(trigger=self._trigger(), method_name="execute_complete", timeout=timeout)

    def _trigger(self) -> BaseTrigger:
        terms: dict[str, Any] = {
            "redis_queue": self.redis_queue,
            "redis_queue_conn_id": self.redis_queue_conn_id,
            "end_task": self._ends_in_trigger,
        }
        if self.publication is not None:
            return RedisQueuePublicationTrigger(**terms, publication=self.publication)
        terms |= {
            "min_messages": self.threshold.min_messages,
            "max_age": self.threshold.max_age_s,
            "max_messages": self.max_messages,
        }
        if self.count == "ready" and self._notifies:
            return RedisQueueTrigger(**terms, groups=self.groups)
        return RedisQueueDepthTrigger(**terms, count=self.count, poll_interval=self.poke_interval)

    @property
    def _ends_in_trigger(self) -> bool:
        # For a task that ends in its trigger, Airflow emits no asset event, runs no `on_success_callback` (the DAG
        # processor accepts only those of failures), and pushes whatever XCom the trigger gives.
        more = self.hand_over_s is not None or self.outlets or self.on_success_callback
        return self.end_in_trigger and self.do_xcom_push and not more

    def _start_from_trigger(self) -> None:
        if not self.deferrable:
            raise ConfigurationError("`start_from_trigger` requires deferrable=True")
        if is_template(f"{self.redis_queue}{self.publication}{self.redis_queue_conn_id}{self.groups}"):
            raise ConfigurationError(
                "`start_from_trigger` needs a `redis_queue`, a `publication`, a `redis_queue_conn_id` and `groups` "
                "without templates: no worker renders them before the trigger starts"
            )
        trigger, arguments = self._trigger().serialize()
        self.start_from_trigger = True
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls=trigger,
            next_method="execute_complete",
            trigger_kwargs=arguments,
            timeout=timedelta(seconds=self.timeout),
        )

    def _bounded(self, found: int) -> int:
        return found if self.max_messages is None else min(found, self.max_messages)

    def _time_left(self, context: Context) -> timedelta:
        # Airflow keeps start_date across deferrals.
        left = timedelta(seconds=self.timeout) - (datetime.now(UTC) - context["ti"].start_date)
        if left <= timedelta(0):
            raise AirflowSensorTimeout(f"Queue {self.redis_queue} was below threshold for {self.timeout} s.")
        return left


def _hand_over_s(hand_over: timedelta | float | bool) -> float | None:
    if isinstance(hand_over, bool):
        return 600.0 if hand_over else None
    return check_seconds("hand_over", hand_over or 0, MOMENT_S)  # time allowed to adopt


def _check_count(count: str, max_age: object, hand_over_s: float | None, groups: object) -> None:
    if count not in get_args(Counted):
        raise ConfigurationError(f"`count` must be one of {get_args(Counted)}, not {count!r}")
    if count != "ready" and not (max_age is None and hand_over_s is None and groups is None):
        raise ConfigurationError(f"`max_age`, `hand_over` and `groups` require count='ready', not {count!r}")


def _check_publication(publication: str | None, others: Mapping[str, object]) -> None:
    if publication is None:
        return
    if not publication:
        raise ConfigurationError("`publication` must name what the messages are a part of; it is empty")
    given = [f"`{name}`" for name, value in others.items() if value]
    if given:
        raise ConfigurationError(
            f"`publication` waits until all of its messages are done, and claims none: leave out {', '.join(given)}"
        )
