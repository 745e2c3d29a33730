"""`@task.redis_queue`: run, as a task, a function that receives messages.

Law: the function gets its messages in the parameter `messages`; the process that runs the function claims them. If the
function returns, they are acked. If it raises, they are kept for the next try, or nacked after the last try. If the
task is cleared, marked or deleted, or its worker shuts down, they are released.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

from airflow.providers.common.compat.sdk import (
    AirflowSkipException,
    Context,
    DecoratedOperator,
    TaskDecorator,
    XCom,
    XComArg,
    context_merge,
    determine_kwargs,
    task_decorator_factory,
)
from airflow.sdk.bases.xcom import BaseXCom

from rmq_airflow.batch import (
    ReleaseOnKillMixin,
    TaskBatch,
    adopt,
    check_bound,
    check_discipline,
    check_groups,
    check_handed,
    check_queue,
    claim,
)
from rmq_airflow.drain import reason_of
from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.identity import TaskIdentity
from rmq_airflow.killed import TaskKilled
from rmq_airflow.lineage import QueueLineageMixin
from rmq_airflow.links import LinkedTask
from rmq_airflow.metrics import report_counts, working_on
from rmq_airflow.retries import keep_lease_s, warn_of_short_lease
from rmq_core import ConfigurationError, LeaseAlreadySettled, LeasedConfig, LeasedQueue
from rmq_core.orchestrate import Claimed, OnSettled, check_done, check_on_settled, conclude, is_awaited

MESSAGES = "messages"
SETTLED_BEFORE = "settled_before"


class RedisQueueDecoratedOperator(LinkedTask, QueueLineageMixin, ReleaseOnKillMixin, DecoratedOperator):
    """
    Run a function on a batch of messages.

    Returns the function's return value; with ``max_batches``, a list of the return values. Also pushes
    ``settled_before: true`` as an XCom if this task had settled its batch before.

    :param redis_queue: the queue to claim from (templated)
    :param max_messages: the most messages the function gets
    :param max_batches: call the function for at most this many batches, one after another, or until the queue is empty;
        None for no bound. A batch is acked before the next one is claimed. Cannot be combined with ``hand_over``
    :param lease: seconds or timedelta of the lease, which heartbeats extend; by default that of ``queue_config``
    :param hand_over: the output of a sensor with ``hand_over=True``, whose batch is adopted instead (templated)
    :param on_settled: what to do when this task's batch was already acked, as after a ``clear``: ``skip`` calls the
        function without messages; ``next`` claims others, and cannot be combined with ``hand_over``
    :param queue_config: lease, delivery limit and so on; by default those of the connection
    :param redis_queue_conn_id: connection of type ``redis_queue`` (templated)
    :param groups: claim only messages of these groups, in a queue that has groups (templated); not with ``hand_over``
    """

    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields, "redis_queue", "hand_over", "redis_queue_conn_id", "groups",
    )  # fmt: skip
    custom_operator_name = "@task.redis_queue"

    def __init__(
        self,
        *,
        redis_queue: str | None = None,
        max_messages: int = 100,
        max_batches: int | None = 1,
        lease: timedelta | float | None = None,
        hand_over: Mapping[str, Any] | XComArg | None = None,
        on_settled: OnSettled = "skip",
        queue_config: LeasedConfig | None = None,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
        groups: Collection[str] | None = None,
        **kwargs: Any,
    ) -> None:
        if (redis_queue is None) == (hand_over is None):
            raise ConfigurationError("give either `queue`, to claim from it, or `hand_over`, to adopt a batch")
        check_queue("given by hand_over" if redis_queue is None else redis_queue, queue_config)
        check_bound("max_messages", max_messages)
        check_bound("max_batches", max_batches)
        check_on_settled(on_settled)
        if max_batches != 1 and (hand_over is not None or kwargs.get("multiple_outputs")):
            raise ConfigurationError(
                "`max_batches` applies only to claiming, and makes the result a list; leave it out with `hand_over` "
                "and with `multiple_outputs`"
            )
        if hand_over is not None and (on_settled == "next" or groups is not None):
            raise ConfigurationError(
                "`on_settled='next'` and `groups` apply only to claiming; leave them out with `hand_over`"
            )
        super().__init__(**kwargs)
        self.redis_queue = redis_queue
        self.max_messages = max_messages
        self.max_batches = max_batches
        self.lease = lease
        self.hand_over = hand_over
        self._adopts = hand_over is not None  # stored, because rendering may turn `hand_over` into None
        self.on_settled = on_settled
        self.queue_config = queue_config
        self.redis_queue_conn_id = redis_queue_conn_id
        self.groups = check_groups(groups)
        warn_of_short_lease(self, "lease", lease, queue_config)

    def execute(self, context: Context) -> Any:
        """Claim or adopt a batch and call the function. Raises LeaseLost if the lease was lost meanwhile."""
        hook = RedisQueueHook(self.redis_queue_conn_id)
        name = check_handed(self.hand_over)["queue"] if self._adopts else self.redis_queue
        with hook.queue(str(name), self.queue_config, needed_by=self.custom_operator_name) as queue:
            check_discipline(queue)
            if self.max_batches == 1:
                return self._work(self._next_batch(queue, context), hook, queue, context)
            return self._work_on_batches(hook, queue, context)

    def _work_on_batches(self, hook: RedisQueueHook, queue: LeasedQueue, context: Context) -> list[Any]:
        """Return the function's results. For an empty queue, call the function once, as without `max_batches`."""
        values: list[Any] = []
        while self.max_batches is None or len(values) < self.max_batches:
            batch = self._next_batch(queue, context)
            if values and not batch:
                break
            values.append(self._work(batch, hook, queue, context))
            if not batch:
                break
        return values

    def _take(self, queue: LeasedQueue, context: Context) -> Claimed:
        identity, on_settled = TaskIdentity.of(context), self.on_settled if self.max_batches == 1 else "next"
        try:
            if self._adopts:
                claimed = Claimed(adopt(queue, identity, check_handed(self.hand_over), self.lease))
            else:
                options: dict[str, Any] = {"lease": self.lease, "on_settled": on_settled, "groups": self.groups}
                claimed = claim(queue, identity, max_messages=self.max_messages, **options)
        except LeaseAlreadySettled as settled:
            self.log.info("%s The function gets no messages.", settled)
            claimed = Claimed(None, settled_before=True)
        if claimed.settled_before and self.do_xcom_push:
            context["ti"].xcom_push(SETTLED_BEFORE, True)
        return claimed

    def _next_batch(self, queue: LeasedQueue, context: Context) -> TaskBatch:
        """Return the next batch; claim again after one of which the codec refused every payload."""
        while True:
            batch = self._batch_of(queue, self._take(queue, context))
            if batch or self._adopts or not batch.claimed:
                return batch
            self._report_settled(batch)

    def _batch_of(self, queue: LeasedQueue, claimed: Claimed) -> TaskBatch:
        lease = claimed.lease
        if lease is not None and self.max_batches != 1:
            # The next batch uses the same lease id, so the ack of this one must leave no record under that id.
            lease = replace(lease, named=False)
        batch = TaskBatch(queue, lease)
        self.log.info("%d messages of %s under lease %s.", len(batch), queue.name, lease and lease.id)
        report_counts(self, queue.name, claimed=batch.claimed, isolated=claimed.isolated)
        return batch

    def _work(self, batch: TaskBatch, hook: RedisQueueHook, queue: LeasedQueue, context: Context) -> Any:
        try:
            with self._holding(batch, hook, queue, context["ti"]):
                return self._call_and_settle(batch, context)
        finally:
            self._report_settled(batch)

    def _report_settled(self, batch: TaskBatch) -> None:
        counts = {name: getattr(batch, name) for name in ("acked", "failed", "dead", "released")}
        self.log.info("%d acked, %d failed (%d dead), %d released.", *counts.values())
        report_counts(self, batch.queue.name, **counts)

    def _call_and_settle(self, batch: TaskBatch, context: Context) -> Any:
        batch.in_hand = batch
        try:
            with working_on(batch.queue.name, batch):
                value = self._call(batch, context)
                check_done("the function", value)
                value = self._handle_output(value)
            self._check_output(value)
            batch.finish()
        except TaskKilled:
            raise  # `on_kill` has already settled the batch
        except BaseException as error:  # as a timeout is
            self._conclude(batch, error, context)
            raise
        return value

    def _check_output(self, value: Any) -> None:
        """Raise before the ack if Airflow cannot store the value.

        Airflow itself would raise only after the ack, and a retry would find no messages.
        """
        if not self.do_xcom_push or value is None:
            return
        names_outputs = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
        if self.multiple_outputs and not names_outputs:
            raise TypeError(
                f"`multiple_outputs` needs a dictionary with strings as keys; the function returned a "
                f"{type(value).__name__}"
            )
        if XCom.serialize_value is BaseXCom.serialize_value:  # a custom backend's serialize_value may store the value
            XCom.serialize_value(value)

    def _conclude(self, batch: TaskBatch, error: BaseException, context: Context) -> None:
        skips = isinstance(error, AirflowSkipException)
        keep_s = None if skips else keep_lease_s(context, error)
        how = conclude(batch, reason_of(error), keep_s=keep_s, retried=keep_s is not None, blameless=skips)
        self.log.info("The messages are %s.", how)

    def _call(self, batch: TaskBatch, context: Context) -> Any:
        context_merge(context, self.op_kwargs)
        named = determine_kwargs(self.python_callable, self.op_args, context)
        with_messages: Any = self.python_callable
        return with_messages(*self.op_args, **{**named, MESSAGES: batch})


def redis_queue_task(
    python_callable: Callable[..., Any] | None = None,
    *,
    queue: str | None = None,
    multiple_outputs: bool | None = None,
    **kwargs: Any,
) -> TaskDecorator:
    """
    Turn a function with a parameter ``messages`` into a task; ``RedisQueueDecoratedOperator`` lists the parameters.

    .. seealso:: :ref:`howto/operator:RedisQueueDecoratedOperator`

    :param python_callable: the function
    :param queue: the Redis queue; if ``redis_queue`` is given too, ``queue`` is Airflow's own: the worker queue
    :param multiple_outputs: see ``@task``
    """
    if python_callable is None:
        return cast(
            "TaskDecorator",
            functools.partial(redis_queue_task, queue=queue, multiple_outputs=multiple_outputs, **kwargs),
        )
    if queue is not None:
        kwargs["queue" if "redis_queue" in kwargs else "redis_queue"] = queue
    if multiple_outputs is None and kwargs.get("max_batches", 1) != 1:
        multiple_outputs = False  # Airflow infers it from the function's return type, but the task returns a list
    return task_decorator_factory(
        python_callable=_without_messages(python_callable),
        multiple_outputs=multiple_outputs,
        decorated_operator_class=RedisQueueDecoratedOperator,
        **kwargs,
    )


def _without_messages(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with the signature that the DAG author uses: without `messages`, which the task adds."""
    signature = inspect.signature(function)
    parameter = signature.parameters.get(MESSAGES)
    if parameter is None or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise ConfigurationError(f"`{function.__name__}` must have a parameter `{MESSAGES}` for the messages")
    if is_awaited(function):
        raise ConfigurationError(f"`{function.__name__}` must not be a coroutine function; call asyncio.run inside")
    others = [other for name, other in signature.parameters.items() if name != MESSAGES]
    place = list(signature.parameters).index(MESSAGES)

    @functools.wraps(function)
    def call(*args: Any, messages: TaskBatch, **kwargs: Any) -> Any:
        if len(args) >= place and parameter.kind is not parameter.KEYWORD_ONLY:
            return function(*args[:place], messages, *args[place:], **kwargs)
        return function(*args, messages=messages, **kwargs)

    call.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]  # what DAG authors pass
    return call
