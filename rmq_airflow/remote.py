"""Let the next try find a driver in cluster mode, which outlives the task that submitted it.

Law: while the driver of an earlier try runs, or if it has succeeded, it keeps its lease and the new try only watches; a
takeover would fence off a driver that works correctly. A driver that has lost its lease is stopped. Before a driver is
submitted, the data that the next try needs is written to Airflow's task state store: the lease without its token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import Context

from rmq_airflow.cluster import ClusterSubmitHook
from rmq_airflow.identity import TaskIdentity
from rmq_core import Lease, LeasedQueue
from rmq_core.work import Submission

LEASE_KEY = "rmq_lease"


class RemoteDriver:
    """The driver of one task instance, whichever try submitted it.

    Needs the task state store of Airflow 3.3 and the operator's `durable`. Without them every try submits its own
    driver, and the fence stops the previous driver. `stop` asks the platform to end the driver.
    """

    def __init__(
        self, operator: SparkSubmitOperator, hook: ClusterSubmitHook, stop: Callable[[], None], context: Context
    ) -> None:
        self._operator, self._hook, self._context = operator, hook, context
        self.stop = stop
        durable = getattr(operator, "durable", False)
        self._store: Any = context.get("task_state_store") if durable else None

    def resume(self, queue: LeasedQueue) -> Submission | None:
        """Return the submission of an earlier try if its driver runs or has succeeded; otherwise None.

        Exceptions of the platform's API propagate: it is then unknown whether the driver runs.
        """
        job, known = self._get(self._operator.external_id_key), self._get(LEASE_KEY)
        if job is None or known is None:
            return None
        status = self._operator.get_job_status(job, self._context)
        active = self._operator.is_job_active(status)
        if not active and not self._operator.is_job_succeeded(status):
            return None
        lease = Lease.from_json(known["lease"])
        if not TaskIdentity.of(self._context).follows(lease.owner):
            return None
        submission = Submission.resumed(queue, lease, known["fence"])
        if submission is not None:
            self._operator.log.info("Driver %s of an earlier try is %s; watching it.", job, status)
            self._remember(queue, submission)
            self._hook.attach(job)
        elif active and queue.settled(lease.id) is None:
            self._operator.log.warning("Driver %s has lost lease %s; stopping it.", job, lease.id)
            self._hook.attach(job)
            self.stop()
        return submission

    def begin(self, queue: LeasedQueue, submission: Submission) -> None:
        """Prepare the task state store before a driver is submitted.

        Delete the state of an earlier driver, because it does not describe the messages of the new one.
        """
        for key in (self._operator.external_id_key, getattr(self._operator, "_K8S_DRIVER_STATUS_KEY", None)):
            if key is not None and self._get(key) is not None:
                self._store.delete(key)
        self._remember(queue, submission)

    def leave(self, queue: LeasedQueue, submission: Submission, keep_s: float) -> bool:
        """After a failure of this try, return whether its driver still runs and the next try will find it.

        If the driver has not adopted the lease yet, keep the lease for `keep_s` seconds. Raises LeaseLost if the lease
        is lost.
        """
        if self._store is None or not self._goes_on():
            return False
        submission.poll()
        if not submission.adopted:
            submission.keep(keep_s)
            self._remember(queue, submission)
        return True

    def end(self) -> None:
        """Stop a running driver that no try will watch. Leave an ended one in place, so that its logs stay readable."""
        if self._goes_on():
            self.stop()

    def _goes_on(self) -> bool:
        """Return whether the driver still runs; also True if the platform gives no answer."""
        job = self._hook.job
        if job is None:
            return False
        try:
            return self._operator.is_job_active(self._operator.get_job_status(job, self._context))
        except Exception:  # each platform's client raises its own exception classes
            return True

    def _remember(self, queue: LeasedQueue, submission: Submission) -> None:
        """Store for the next try the driver's lease and its fence: a different fence means that the driver adopted."""
        info = None if self._store is None or submission.adopted else queue.lease_info(submission.lease.id)
        if info is not None:
            self._store.set(LEASE_KEY, {"lease": submission.lease.to_json(), "fence": info.fence})

    def _get(self, key: str) -> Any:
        return None if self._store is None else self._store.get(key)
