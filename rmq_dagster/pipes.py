"""`RedisQueueSparkPipes`: run a Spark driver through Dagster Pipes on a lease, and ack inside the run.

The run claims, hands the lease to the driver, watches, and succeeds only when the messages are settled. While Dagster
will retry, a failure keeps the lease, and the retry gets the same messages back; the last failure nacks. A cancelled
run stops Spark and gives the messages back untouched.
"""

from __future__ import annotations

import dataclasses
import itertools
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import dagster as dg

from rmq_core import (
    Lease,
    LeaseAlreadySettled,
    LeasedConfig,
    LeasedQueue,
    QueueUnavailable,
    RedisMessageQueueError,
    Submission,
)
from rmq_dagster import runs
from rmq_dagster.driver import DriverProcess
from rmq_dagster.resources import RedisQueueResource
from rmq_dagster.tags import CLAIMED

LOOK_S = 1.0  # seconds between two looks at the lease, at most
CANCELLED = (dg.DagsterRunStatus.CANCELING, dg.DagsterRunStatus.CANCELED)
RETRY_MARGIN_S = 600  # a retry waits for a daemon, a slot and a process before it claims


class LeasedInvocation(dg.PipesClientCompletedInvocation):
    """What a driver reported, and what became of its messages: `claimed`, and `rmq/...` in the metadata."""

    def __init__(
        self, context: runs.StepContext, metadata: Mapping[str, Any], session: dg.PipesSession | None = None
    ) -> None:
        super().__init__(session, metadata)  # type: ignore[arg-type]  # an empty run opens no session
        self._context, self._empty = context, session is None
        self.claimed: int = metadata["rmq/claimed"]

    def get_results(self, *, implicit_materializations: bool = True) -> Sequence[dg.PipesExecutionResult]:
        """As in Dagster; an empty run, which starts no driver, materializes its assets with `rmq/claimed` = 0."""
        if not self._empty:
            return super().get_results(implicit_materializations=implicit_materializations)
        keys = self._context.selected_asset_keys if implicit_materializations and self._context.has_assets_def else ()
        return [dg.MaterializeResult(asset_key=key, metadata=dict(self.metadata)) for key in keys]

    def get_custom_messages(self) -> Sequence[Any]:
        """As in Dagster; nothing for an empty run."""
        return [] if self._empty else super().get_custom_messages()


@dataclasses.dataclass(frozen=True)
class RedisQueueSparkPipes(dg.PipesClient):
    """A Pipes client whose driver works on up to `max_messages` messages of `queue`, held under one lease.

    >>> pipes = RedisQueueSparkPipes(redis_queue, "flights", max_messages=500)
    >>> return pipes.run(context=context, command=["spark-submit", "delays.py"]).get_materialize_result()

    The driver finds the lease (`RMQ_HANDOVER`) and the connection (`RMQ_URL`, `RMQ_USERNAME`, `RMQ_PASSWORD`) in its
    process environment. One that uses `rmq_spark.adopted_batch` adopts the lease and settles it; for any other command,
    exit code 0 acks. `on_settled`: what a re-execution of a run does whose messages are all acked, succeed at once
    ("skip") or claim new ones ("next"). `stop_grace_s`: seconds between SIGTERM and SIGKILL.
    """

    redis: RedisQueueResource
    queue: str
    config: LeasedConfig | None = None
    max_messages: int = 1000
    on_settled: Literal["skip", "next"] = "skip"
    stop_grace_s: float = 10

    def run(  # type: ignore[override]  # Dagster's clients name their arguments instead of taking **kwargs
        self,
        *,
        context: runs.StepContext,
        command: Sequence[str],
        extras: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> LeasedInvocation:
        """Claim, run `command` to its end, and see its messages settled.

        Raises `dagster.Failure` when the driver fails and `LeaseLost` when others got hold of the messages.
        """
        _refuse_cancelled(context)
        queue = self.redis.queue(self.queue, self.config)
        try:
            lease = self._claim(context, queue)
        except LeaseAlreadySettled as settled:
            return self._nothing_to_do(context, {"rmq/acked_before": settled.acked})
        if lease is None:
            return self._nothing_to_do(context, {})
        submission = Submission(queue, lease)
        given = {**(env or {}), **submission.handover(self.redis.settings()).environment()}
        with _concluding(context, submission), self._session(context, extras) as session:
            bootstrap = session.get_bootstrap_env_vars()
            # Inside the other blocks: what becomes of the lease is decided when the driver's processes are gone.
            with DriverProcess(command, env={**given, **bootstrap}, cwd=cwd, stop_grace_s=self.stop_grace_s) as driver:
                _watch(context, driver, submission)
            acked = submission.finish()
        return LeasedInvocation(context, self._metadata(lease, acked), session)

    def _claim(self, context: runs.StepContext, queue: LeasedQueue) -> Lease | None:
        base = runs.lease_id(context)
        for attempt in itertools.count(1):
            name = base if attempt == 1 else f"{base}#{attempt}"
            try:
                lease = queue.claim(max_messages=self.max_messages, lease_id=name, owner=runs.owner(context))
            except LeaseAlreadySettled:
                if self.on_settled == "skip":
                    raise
            else:
                self._report_claim(context, lease)
                return lease
        raise AssertionError("unreachable: itertools.count never ends")

    def _report_claim(self, context: runs.StepContext, lease: Lease | None) -> None:
        claimed = lease.count if lease else 0
        context.instance.add_run_tags(context.run.run_id, {CLAIMED: str(claimed)})
        context.log.info("Claimed %d message(s) of %r", claimed, self.queue)

    def _session(self, context: runs.StepContext, extras: Mapping[str, Any] | None) -> Any:
        return dg.open_pipes_session(
            context=context,
            context_injector=dg.PipesTempFileContextInjector(),
            message_reader=dg.PipesTempFileMessageReader(),
            extras=dict(extras or {}),
        )

    def _metadata(self, lease: Lease, acked: int | None) -> dict[str, Any]:
        counts = {"rmq/claimed": lease.count} | ({} if acked is None else {"rmq/acked": acked})
        return {"rmq/queue": self.queue, "rmq/lease_id": lease.id, **counts}

    def _nothing_to_do(self, context: runs.StepContext, found: Mapping[str, Any]) -> LeasedInvocation:
        return LeasedInvocation(context, {"rmq/queue": self.queue, "rmq/claimed": 0, **found})


def _refuse_cancelled(context: runs.StepContext) -> None:
    """In one process with its run, Dagster answers the cancelling of a step by trying it again if a policy says so."""
    run = context.instance.get_run_by_id(context.run.run_id)
    if run and run.status in CANCELLED:
        raise dg.Failure("The run is being cancelled; nothing was claimed.", allow_retries=False)


def _watch(context: runs.StepContext, driver: DriverProcess, submission: Submission) -> None:
    """Until the driver ends. Raises `LeaseLost` as soon as others hold its messages."""
    while (code := driver.wait(min(LOOK_S, submission.pace_s))) is None:
        try:
            submission.look()
        except QueueUnavailable as error:
            # The driver goes on while its lease lasts; the end of the run tells whether it did.
            context.log.warning("Cannot see the lease of the driver: %s", error)
    if code:
        raise dg.Failure(
            f"The driver {_ending(code)}; its output is in the compute logs.", metadata={"exit_code": code}
        )


def _ending(code: int) -> str:
    """A shell, and spark-submit, report the signal that killed a child as 128 + its number."""
    number = -code if code < 0 else code - 128
    if number not in set(signal.Signals):
        return f"ended with exit code {code}"
    return f"was killed by {signal.Signals(number).name} (exit code {code})"


@contextmanager
def _concluding(context: runs.StepContext, submission: Submission) -> Iterator[None]:
    """What becomes of the lease when the block fails. Redis being away then hides nothing: the lease will expire."""
    try:
        yield
    except BaseException as error:
        try:
            outcome = _conclude(context, submission, error)
        except RedisMessageQueueError as trouble:
            outcome = f"left to expire: {trouble}"
        context.log.info("The lease %r is %s", submission.lease.id, outcome)
        raise


def _conclude(context: runs.StepContext, submission: Submission, error: BaseException) -> str:
    if not isinstance(error, Exception):
        return "given back: the run was interrupted" if submission.give_back() else "not ours any more"
    delay = runs.retry_delay(context)
    if delay is not None:
        return "kept for the retry" if submission.keep(delay + RETRY_MARGIN_S) else "gone before the retry"
    reason = f"{type(error).__name__}: {error}"[:500]
    return "nacked: this was the last attempt" if submission.give_up(reason) else "not ours any more"
