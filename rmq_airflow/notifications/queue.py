"""Publish a message when a task or a DAG succeeds, fails or is retried.

Law: a notification contains ids and names, never the text of an exception, which may quote a payload. Calling a
notifier leaves it and the context unchanged: a DAG processor calls one notifier for many tasks.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import BaseNotifier, Context

from rmq_airflow.batch import check_discipline, check_queue
from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.identity import TaskIdentity
from rmq_airflow.metrics import report_counts, trace_headers
from rmq_core import LeasedConfig, WorkQueue
from rmq_core.protocol import AsyncWorkQueue, require
from rmq_core.reports import Published

LOST = "the process of the task was killed, or Airflow lost its worker"


class RedisQueueNotifier(BaseNotifier):
    """
    Publish a message about the task, the DAG run or the deadline that a callback is for.

    For ``on_failure_callback``, ``on_success_callback``, ``on_retry_callback`` and ``on_skipped_callback`` of tasks and
    DAGs, and, as the callable of an ``AsyncCallback``, for deadlines. Without ``payload``, the message is a dictionary
    with ``dag_id``, ``run_id``, ``task_id``, ``map_index``, ``try_number``, ``state``, ``reason``, ``error`` (the class
    of the exception) and ``log_url``; those that the callback does not know are None. The ``reason`` of a task whose
    process was killed, or whose worker was lost, says that.

    .. seealso:: :ref:`howto/notifier:RedisQueueNotifier`

    :param redis_queue: the queue to publish to (templated)
    :param payload: the message instead of the default one: a text, a dictionary or a list (templated)
    :param dedup_key: publish nothing if a message with this key was published within the queue's ``dedup_window``
        (templated)
    :param delay: seconds or timedelta before the message becomes ready
    :param headers: additional headers of the message (templated)
    :param queue_config: deduplication, capacity and so on; by default those of the connection
    :param redis_queue_conn_id: connection of type ``redis_queue`` (templated)
    :param group: the group of the message, in a queue that has groups (templated)
    :param priority: 0 to 9, of which 9 comes first, in a queue that has groups without limit
    :param publication: what the message is a part of, in a queue that has groups, such as ``{{ run_id }}`` (templated)
    :param context: Airflow gives it to a notifier that runs in the triggerer
    """

    template_fields: Sequence[str] = (
        "redis_queue", "payload", "dedup_key", "headers", "redis_queue_conn_id", "group", "publication",
    )  # fmt: skip

    def __init__(
        self,
        *,
        redis_queue: str,
        payload: Any = None,
        dedup_key: str | None = None,
        delay: timedelta | float | None = None,
        headers: Mapping[str, str] | None = None,
        queue_config: LeasedConfig | None = None,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
        group: str | None = None,
        priority: int | None = None,
        publication: str | None = None,
        context: Context | None = None,
    ) -> None:
        super().__init__(context)
        check_queue(redis_queue, queue_config)
        self.redis_queue = redis_queue
        self.payload = payload
        self.dedup_key = dedup_key
        self.delay = delay
        self.headers = headers
        self.queue_config = queue_config
        self.redis_queue_conn_id = redis_queue_conn_id
        self.group = group
        self.priority = priority
        self.publication = publication

    def __call__(self, *args: Any) -> None:
        """Publish. Raises what `notify` raises; Airflow logs it, and the state of the task stays what it is."""
        # Rendering changes a notifier for good, so that a second task would get the texts of the first.
        first, *others = args
        made = copy.copy(self)
        super(RedisQueueNotifier, made).__call__({**first} if isinstance(first, Mapping) else first, *others)

    def notify(self, context: Context) -> None:
        """Publish in a task's process or in the DAG processor. Raises RedisMessageQueueError if that fails."""
        hook = RedisQueueHook(self.redis_queue_conn_id)
        with closing(hook.work_queue(self.redis_queue, self.queue_config)) as queue:
            check_discipline(queue)
            spans = {} if hook.traced else trace_headers()  # a traced queue adds headers for the span that it makes
            self._log_published(queue.publish(self._content(context), **self._options(queue, context, spans)))

    async def async_notify(self, context: Context) -> None:
        """Publish in the triggerer, which runs the callbacks of deadlines. Raises RedisMessageQueueError."""
        queue = await RedisQueueHook(self.redis_queue_conn_id).async_work_queue(self.redis_queue, self.queue_config)
        try:
            self._log_published(await queue.publish(self._content(context), **self._options(queue, context, {})))
        finally:
            await queue.close()

    def _content(self, context: Context) -> Any:
        return about(context) if self.payload is None else self.payload

    def _options(self, queue: WorkQueue | AsyncWorkQueue, context: Context, spans: Mapping[str, str]) -> dict[str, Any]:
        """Return the keywords of `publish`. Raises Unsupported for one that the discipline of the queue lacks."""
        asked = {"delay": self.delay, "dedup": self.dedup_key, "headers": self.headers}
        require(queue, type(self).__name__, *(name for name, value in asked.items() if value))
        # A template of what a callback does not know, such as the task of a DAG's, is rendered to an empty text.
        turn = {"group": self.group or None, "priority": self.priority, "publication": self.publication or None}
        if any(value is not None for value in turn.values()):
            require(queue, type(self).__name__, "groups")
        options: dict[str, Any] = {"delay": self.delay, "dedup_key": self.dedup_key or None, **turn}
        if queue.capabilities.headers:
            options["headers"] = {**_origin(context), **spans, **(self.headers or {})}
        return {name: value for name, value in options.items() if value is not None}

    def _log_published(self, published: Published) -> None:
        self.log.info("Queue %s: %s", self.redis_queue, published)
        report_counts(self, self.redis_queue, published=int(published.accepted), duplicates=int(not published.accepted))


def about(context: Context) -> dict[str, Any]:
    """Return the message about what a callback is for; values that its context lacks are None."""
    known: Mapping[str, Any] = context
    ti, error, run = known.get("ti"), known.get("exception"), known.get("dag_run")
    state = _of(ti, "state")
    # The callback of a task that did not end in its own process gets neither: its DAG is loaded elsewhere to call it.
    lost = LOST if ti is not None and error is None and state is None else None
    return {
        "dag_id": _of(ti, "dag_id") or _of(run, "dag_id") or _of(known.get("dag"), "dag_id"),
        "run_id": _of(ti, "run_id") or known.get("run_id") or _of(run, "run_id") or _of(run, "dag_run_id"),
        "task_id": _of(ti, "task_id"),
        "map_index": _of(ti, "map_index"),
        "try_number": _of(ti, "try_number"),
        "state": None if state is None else str(getattr(state, "value", state)),
        "reason": known.get("reason") or lost,
        "error": type(error).__name__ if isinstance(error, BaseException) else None,
        "log_url": _of(ti, "log_url"),
    }


def _origin(context: Context) -> dict[str, str]:
    """Return the headers that messages of this task have; of a run without a task, only the first two."""
    if context.get("ti") is not None:
        return TaskIdentity.of(context).headers
    found = about(context)
    named = {"airflow-dag-id": found["dag_id"], "airflow-run-id": found["run_id"]}
    return {name: value for name, value in named.items() if value is not None}


def _of(value: Any, name: str) -> Any:
    """Return a field of a run or task: an object in a task's process, a dictionary for the callback of a deadline."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
