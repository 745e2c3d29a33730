"""Hand a lease over to a driver that a Pipes client of another service runs, and settle inside the run.

The step claims, keeps the lease until the driver adopts it, and watches it from then on. It succeeds only when the
messages are settled. That a client returns does not mean that its job has done the work: the client of Databricks also
returns after an interrupt, that of EMR also if a step with `ActionOnFailure=CONTINUE` has failed.
The extras of the Pipes session carry the lease; Dagster and the service may show them, so they hold references to
secrets.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rmq_core import LeaseAlreadySettled, LeasedQueue, LeaseLost, LeftUnsettled, RedisSettings
from rmq_core.work import Handover, LeaseWatch, Submission, check_secrets
from rmq_dagster import runs
from rmq_dagster.batch import Terms
from rmq_dagster.claiming import claim, shortened
from rmq_dagster.console_link import console_link
from rmq_dagster.ending import concluding


class SubmittedBatch:
    """Messages that a driver works on; empty, and false, when nothing was ready or an earlier run acked them.

    `extras` are those for the Pipes client. `parameters` are the same as two parameters, for a driver without Pipes.
    """

    def __init__(self, queue: str, metadata: Mapping[str, Any], handover: Handover | None, secrets: Any) -> None:
        self.queue = queue
        self._started, self._metadata = time.monotonic(), metadata
        self.extras: dict[str, Any] = {} if handover is None else handover.extras(secrets)
        self.parameters: list[str] = [] if handover is None else handover.parameters(secrets)

    def __bool__(self) -> bool:
        return bool(self.extras)

    @property
    def metadata(self) -> dict[str, Any]:
        """Return metadata for the step's result, like that of `ClaimedBatch`."""
        seconds = {"rmq/seconds": round(time.monotonic() - self._started, 3)} if self else {}
        return {**self._metadata, **seconds}


@contextmanager
def submitting(
    context: runs.StepContext,
    queue: LeasedQueue,
    settings: RedisSettings,
    terms: Terms,
    secrets: Mapping[str, str],
    *,
    ack_unadopted: bool,
) -> Iterator[SubmittedBatch]:
    """Claim, keep the lease for the driver that the block runs, and settle according to how the block ends."""
    check_secrets(settings, secrets)
    about = {"rmq/queue": queue.name, **console_link(queue.name, None)}
    try:
        lease = claim(context, queue, max_messages=terms.max_messages, on_settled=terms.on_settled)
    except LeaseAlreadySettled as settled:
        yield SubmittedBatch(queue.name, {**about, "rmq/claimed": 0, "rmq/acked_before": settled.acked}, None, secrets)
        return
    if lease is None:
        yield SubmittedBatch(queue.name, {**about, "rmq/claimed": 0}, None, secrets)
        return
    about |= {**console_link(queue.name, lease.id), "rmq/claimed": lease.count, "rmq/lease_id": lease.id}
    submission = Submission(queue, lease)
    with concluding(context, submission, queue.config):
        batch = SubmittedBatch(
            queue.name, about | shortened(lease, terms.max_messages), submission.handover(settings), secrets
        )
        with LeaseWatch(submission, lambda: _report_loss(context, lease.id)) as watch:
            yield batch
        if watch.lost is not None:
            raise LeaseLost(lease.id) from watch.lost
        if not ack_unadopted:
            _check_adopted(submission)
        submission.finish()


def _check_adopted(submission: Submission) -> None:
    submission.poll()
    if submission.held:
        raise LeftUnsettled(
            f"no driver adopted lease {submission.lease.id!r}, although the block ended without an error: see in the"
            " service what became of the job, and let the driver call rmq_spark.adopted_batch; for a driver that"
            " cannot adopt a lease, pass ack_unadopted=True"
        )


def _report_loss(context: runs.StepContext, lease_id: str) -> None:
    # The client of another service cannot be interrupted from here; a driver that adopted the lease ends by itself.
    context.log.error("Lease %r is lost: what its driver does now counts for nothing", lease_id)
