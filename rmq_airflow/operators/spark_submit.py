"""A Spark job on a claimed batch: claim, submit, watch, conclude, within one task.

Law: only the holder of the lease acks the messages, and only after the job has succeeded. A failed try keeps its lease
for the retry; the last try nacks or releases the messages. If a user or a deployment ends a task, the operator first
stops the driver, then releases the lease. In client mode no driver outlives its task; in cluster mode a driver may, and
the retry finds it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import AirflowTaskTimeout, Context

from rmq_airflow.batch import check_discipline, claim
from rmq_airflow.cluster import ClusterSubmitHook, RemoteDriver, check_cluster_mode, in_cluster_mode, supported
from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.hooks.spark import LeasedSparkSubmitHook
from rmq_airflow.identity import TaskIdentity
from rmq_airflow.killed import Kill, TaskKilled, why_killed
from rmq_airflow.lineage import QueueLineageMixin
from rmq_airflow.links import RedisQueueLink
from rmq_airflow.metrics import report_counts
from rmq_airflow.retries import keep_lease_s, warn_of_short_lease
from rmq_core import LeaseAlreadySettled, LeasedConfig, LeasedQueue, LeaseLost, RedisMessageQueueError
from rmq_core.orchestrate import Claimed, DriverGuard, LeaseWatch, OnSettled, Submission, check_on_settled, conclude

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

Outcome = Literal["acked", "settled one by one", "empty", "already settled"]


class SubmitReport(TypedDict):
    """The return value of the operator: constant in size, without a token or a payload."""

    queue: str
    lease_id: str
    outcome: Outcome
    claimed: int
    acked: int
    isolated: int
    settled_before: bool


class RedisQueueSparkSubmitOperator(QueueLineageMixin, SparkSubmitOperator):
    """
    Claim a batch of messages and run a Spark job on it.

    A job that uses ``rmq_spark.adopted_batch`` adopts the lease and acks it itself. For any other job, the operator
    holds the lease while the job runs and acks it when the job has succeeded. An empty queue is a success with
    ``claimed=0``; the operator then submits nothing. The report's ``isolated`` is the number of messages that had
    failed together before and were claimed apart; ``settled_before`` is true if this task had settled messages under
    its name before.

    Every feature of ``SparkSubmitOperator`` works in client mode. Cluster mode needs version 6.1 of the Spark provider,
    and either YARN with ``yarn_track_via_rm_api=True`` or Kubernetes with ``track_driver_via_k8s_api=True``. With
    ``durable``, a retry watches the driver that an earlier try submitted.

    .. seealso:: :ref:`howto/operator:RedisQueueSparkSubmitOperator`

    :param redis_queue: the queue to claim from (templated)
    :param max_messages: the most messages that one run claims
    :param queue_config: lease, delivery limit and so on; by default those of the connection
    :param lease_id: the name of the batch; a retry takes the batch of that name over instead of claiming another one.
        By default ``dag/run/task/map_index`` (templated)
    :param on_settled: what to do when a batch of that name was already acked, as after a ``clear``: ``skip`` succeeds
        at once, ``next`` claims another batch under ``<lease_id>#2``, ``#3``, …
    :param spark_env: a function, called in the task, that returns environment variables for ``spark-submit``, for
        example ``JAVA_HOME``
    :param redis_queue_conn_id: connection of type ``redis_queue`` (templated)
    """

    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields, "redis_queue", "lease_id", "redis_queue_conn_id",
    )  # fmt: skip
    operator_extra_links = (*SparkSubmitOperator.operator_extra_links, RedisQueueLink())

    def __init__(
        self,
        *,
        redis_queue: str,
        max_messages: int = 1000,
        queue_config: LeasedConfig | None = None,
        lease_id: str | None = None,
        on_settled: OnSettled = "skip",
        spark_env: Callable[[], Mapping[str, str]] | None = None,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        kwargs = supported(kwargs)
        check_cluster_mode(kwargs)
        check_on_settled(on_settled)
        super().__init__(**kwargs)
        self.redis_queue = redis_queue
        self.max_messages = max_messages
        self.queue_config = queue_config
        self.lease_id = lease_id
        self.on_settled = on_settled
        self.spark_env = spark_env
        self.redis_queue_conn_id = redis_queue_conn_id
        self._secrets: Mapping[str, str] = {}
        self._guard: DriverGuard | None = None
        self._remote: RemoteDriver | None = None
        self._ti: RuntimeTaskInstanceProtocol | None = None
        self._waits_in: int | None = None
        self._killed = False  # never reset: Airflow makes a copy of the operator for every try
        self._forget()
        warn_of_short_lease(self, "queue_config", None, queue_config)

    def execute(self, context: Context) -> SubmitReport:  # type: ignore[override]  # the provider's operator returns None
        """Claim messages, submit the job and settle the lease. Raises LeaseLost if the lease was lost meanwhile."""
        if self._killed:
            raise TaskKilled("the task was killed before it claimed anything")
        self._forget()
        self._ti = context["ti"]
        identity = TaskIdentity.of(context)
        hook = RedisQueueHook(self.redis_queue_conn_id)
        remote = self._remote = self._find_remote(hook, context)
        with hook.queue(self.redis_queue, self.queue_config, needed_by=type(self).__name__) as queue:
            check_discipline(queue)
            submission = remote.resume(queue) if remote is not None else None
            if submission is not None:
                return self._run(queue, submission, hook, context)
            try:
                chosen: dict[str, Any] = {"on_settled": self.on_settled, "named": self.lease_id}
                self._claimed = claim(queue, identity, max_messages=self.max_messages, **chosen)
            except LeaseAlreadySettled as settled:
                self.log.info("%s Nothing to do; on_settled='next' would claim another batch.", settled)
                self._claimed = Claimed(None, settled_before=True)
                return self._report(settled.lease_id, "already settled", acked=settled.acked)
            lease = self._claimed.lease
            if lease is None:
                self.log.info("Queue %s is empty.", self.redis_queue)
                return self._report(self.lease_id or identity.lease_id, "empty")
            self.log.info("Claimed %d messages of %s under lease %s.", lease.count, lease.queue, lease.id)
            report_counts(self, self.redis_queue, claimed=lease.count, isolated=self._claimed.isolated)
            submission = Submission(queue, lease)
            if remote is not None:
                remote.begin(queue, submission)
            return self._run(queue, submission, hook, context)

    def on_kill(self) -> None:
        """Begin to stop the driver, and end the wait for a remote driver. Runs in a signal handler.

        After the wait has ended, `execute` decides about the lease. The wait must end at once: Airflow sends SIGKILL
        after five seconds, but polls a driver on YARN or Kubernetes only every ten or twenty.
        """
        self._killed = True
        self._stop_driver()
        if self._remote is not None and self._waits_in == threading.get_ident():
            raise TaskKilled("the task was killed while its driver ran")

    def _forget(self) -> None:
        """Reset the state of a run: Airflow may call `execute` of one operator more than once, as `dag.test()` does."""
        self._hook, self._guard = None, None
        self._claimed, self._waits_in = Claimed(None), None

    def _stop_driver(self) -> None:
        if self._remote is not None:
            self._remote.stop()
        if self._guard is not None:
            self._guard.stop()

    def _find_remote(self, hook: RedisQueueHook, context: Context) -> RemoteDriver | None:
        """Return the remote driver in cluster mode, else None. Raises ConfigurationError for a bad submission."""
        made = self._get_hook()
        if self.spark_env is None:  # `spark_env` may give Spark's location, and is called only when there is work
            made.check_binary()
        if not isinstance(made, ClusterSubmitHook):
            return None
        made.check_secrets(hook.settings)
        self._hook = made
        return RemoteDriver(self, made, super().on_kill, context)

    def _run(self, queue: LeasedQueue, submission: Submission, hook: RedisQueueHook, context: Context) -> SubmitReport:
        acked = self._submit(queue, submission, hook, context)
        report_counts(self, self.redis_queue, acked=acked or 0)
        outcome: Outcome = "settled one by one" if acked is None else "acked"
        return self._report(submission.lease.id, outcome, claimed=submission.lease.count, acked=acked or 0)

    def _submit(self, queue: LeasedQueue, submission: Submission, hook: RedisQueueHook, context: Context) -> int | None:
        watch = LeaseWatch(submission, self._stop_driver)
        try:
            self._hand_over(submission, hook)
            with watch, self._waiting():
                super().execute(context)
            return submission.finish()
        except BaseException as error:
            # A timeout is a BaseException and interrupts the wait while the driver still runs.
            report_counts(self, self.redis_queue, failed_runs=1)
            kill = why_killed(self._ti, submission.lease.owner) if self._killed else None
            keep_s = keep_lease_s(context, error)
            # After a timeout Airflow kills the task, and with it any driver that still runs.
            ends = watch.lost is not None or isinstance(error, AirflowTaskTimeout)
            if ends or not self._leave(queue, submission, keep_s):
                self._end_remote()
                self._end_driver()
                self._conclude(submission, keep_s, kill, type(error).__name__)
            if watch.lost is not None:
                raise watch.lost from error
            raise
        finally:
            self._end_driver()
            self._secrets = {}

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Allow a signal to end the wait for a driver while the block runs; an earlier signal ends it at once."""
        self._waits_in = threading.get_ident()
        try:
            if self._killed and self._remote is not None:
                raise TaskKilled("the task was killed before its driver was submitted")
            yield
        finally:
            self._waits_in = None

    def _hand_over(self, submission: Submission, hook: RedisQueueHook) -> None:
        handover = submission.handover(hook.settings)
        extra = self.spark_env() if self.spark_env is not None else {}
        if isinstance(self._hook, ClusterSubmitHook):
            self._hook.hand_over(handover, extra)
        else:
            self._secrets = {**extra, **handover.environment()}

    def _leave(self, queue: LeasedQueue, submission: Submission, keep_s: float | None) -> bool:
        """Return whether a driver in cluster mode is left to the retry; the caller must end any other driver."""
        if self._remote is None or keep_s is None or self._killed:
            return False
        try:
            left = self._remote.leave(queue, submission, keep_s)
        except LeaseLost:
            return False
        except RedisMessageQueueError:
            self.log.warning("Lease %s cannot be read now; its driver may still hold it.", submission.lease.id)
            return True
        if left:
            self.log.info("The driver keeps running, and the retry watches it.")
        return left

    def _conclude(self, submission: Submission, keep_s: float | None, kill: Kill | None, reason: str) -> None:
        how = conclude(
            submission,
            reason,
            keep_s=keep_s if kill is None else None,  # a task killed for an unknown reason may have no further try
            retried=keep_s is not None,
            blameless=kill is not None and not kill.is_failure,
        )
        self.log.info("Lease %s was %s%s.", submission.lease.id, how, f" ({kill.why})" if kill else "")

    def _end_driver(self) -> None:
        if self._guard is not None and not self._guard.wait():
            self.log.error("Processes of the Spark driver survived SIGKILL; find and end them on this worker.")
        if isinstance(self._hook, LeasedSparkSubmitHook):
            self._hook.reap()

    def _end_remote(self) -> None:
        if self._remote is not None:
            self._remote.end()

    def _get_hook(self) -> LeasedSparkSubmitHook:
        made = super()._get_hook()
        if in_cluster_mode(made):
            return ClusterSubmitHook(made, self._on_start)
        return LeasedSparkSubmitHook(made, self._secrets, self._on_start)

    def _on_start(self, group: int) -> None:
        self._guard = DriverGuard(group)
        if self._killed:
            self._guard.stop()

    def _report(self, lease_id: str, outcome: Outcome, claimed: int = 0, acked: int = 0) -> SubmitReport:
        return {
            "queue": self.redis_queue, "lease_id": lease_id, "outcome": outcome, "claimed": claimed, "acked": acked,
            "isolated": self._claimed.isolated, "settled_before": self._claimed.settled_before,
        }  # fmt: skip
