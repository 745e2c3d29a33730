"""Hand a lease over to a driver that a Pipes client of another service runs, and settle inside the run.

The step claims, keeps the lease until the driver adopts it, and watches it from then on. It succeeds only when the
messages are settled. That a client returns does not mean that its job has done the work: the client of Databricks also
returns after an interrupt, that of EMR also if a step with `ActionOnFailure=CONTINUE` has failed.
The extras of the Pipes session carry the lease; Dagster and the service may show them, so they hold references to
secrets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rmq_core import Lease, LeasedQueue, LeaseLost, LeftUnsettled, RedisSettings
from rmq_core.orchestrate import LeaseWatch, Submission, check_secrets
from rmq_dagster.runs import identity
from rmq_dagster.runs.claiming import ClaimedBatch, Terms, claimed, concluding


class SubmittedBatch(ClaimedBatch):
    """A ClaimedBatch that a driver works on; empty, and false, when nothing was ready or an earlier run acked it.

    `extras` are those for the Pipes client. `parameters` are the same as two parameters, for a driver without Pipes.
    From the moment that the driver adopts the lease, only the driver can read and settle the messages.
    """

    def __init__(
        self, queue: LeasedQueue, lease: Lease | None, acked_before: int | None = None, *, asked: int = 0
    ) -> None:
        super().__init__(queue, lease, acked_before, asked=asked)
        self.extras: dict[str, Any] = {}
        self.parameters: list[str] = []


@contextmanager
def submitting(
    context: identity.StepContext,
    queue: LeasedQueue,
    settings: RedisSettings,
    terms: Terms,
    secrets: Mapping[str, str],
    *,
    ack_unadopted: bool,
) -> Iterator[SubmittedBatch]:
    """Claim, keep the lease for the driver that the block runs, and settle according to how the block ends."""
    check_secrets(settings, secrets)
    batch = claimed(context, queue, terms, SubmittedBatch)
    if not batch:
        yield batch
        return
    submission = Submission(queue, batch.lease)
    with concluding(context, submission, queue.config):
        handover = submission.handover(settings)
        batch.extras, batch.parameters = handover.extras(secrets), handover.parameters(secrets)
        # The client of another service cannot be interrupted from here; a driver that adopted the lease ends by itself.
        lost = "Lease %r is lost: what its driver does now counts for nothing"
        with LeaseWatch(submission, lambda: context.log.error(lost, batch.lease.id)) as watch:
            yield batch
        if watch.lost is not None:
            raise LeaseLost(batch.lease.id) from watch.lost
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
