"""`PipesRedisQueueSparkClient`: run a Spark driver through Dagster Pipes on a lease, and ack inside the run.

The run claims, hands the lease over to the driver, polls both, and succeeds only when the messages are settled. While
Dagster will retry, a failure keeps the lease, and the retry gets the same messages back; the last failure nacks them. A
cancelled run stops Spark and releases the messages untouched. Killing `spark-submit` alone leaves its Python driver
running, so the command gets a session of its own and signals go to the whole process group.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import dagster as dg

from rmq_core import Lease, LeaseAlreadySettled, LeasedConfig, LeasedQueue, QueueUnavailable
from rmq_core.orchestrate import OnSettled, Submission, check_on_settled, end_group
from rmq_dagster.names import console_link
from rmq_dagster.partitions import QueuePartitions, claimed_from
from rmq_dagster.resources import RedisQueueResource
from rmq_dagster.runs import identity
from rmq_dagster.runs.claiming import check_batch, claim, concluding, shortened


class DriverProcess:
    """A command running in its own process group: `with DriverProcess(...) as driver: driver.wait(1.0)`."""

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], cwd: str | None = None, stop_grace_s: float = 10
    ) -> None:
        self._stop_grace_s = stop_grace_s
        self._process = subprocess.Popen(list(command), env={**os.environ, **env}, cwd=cwd, start_new_session=True)
        self.pid = self._process.pid

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit code (negative: the signal that killed it), or None when it still runs after `timeout_s`."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> None:
        """Send SIGTERM to the group, and SIGKILL after the grace time, or at once when interrupted a second time."""
        try:
            end_group(self.pid, self._stop_grace_s, self._process.poll)
        finally:
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


LOOK_S = 1.0  # seconds between two polls of the lease, at most


class LeasedInvocation(dg.PipesClientCompletedInvocation):
    """The report of a driver and the outcome of its messages: `claimed`, and `rmq/...` in the metadata."""

    def __init__(
        self, context: identity.StepContext, metadata: Mapping[str, Any], session: dg.PipesSession | None = None
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
class PipesRedisQueueSparkClient(dg.PipesClient):
    """A Pipes client whose driver works on up to `max_messages` messages of `queue`, held under one lease.

    queue: a name, or QueuePartitions, of which the run claims from its own partition.

    >>> pipes = PipesRedisQueueSparkClient(redis_queue, "flights", max_messages=500)
    >>> return pipes.run(context=context, command=["spark-submit", "delays.py"]).get_materialize_result()

    The driver finds the lease (`RMQ_HANDOVER`) and the connection (`RMQ_URL`, `RMQ_USERNAME`, `RMQ_PASSWORD`) in its
    process environment. A driver that uses `rmq_spark.adopted_batch` adopts the lease and settles it; for any other
    command, exit code 0 acks. `on_settled`: how a re-execution of a run proceeds when its messages are all acked:
    succeed at once ("skip") or claim new ones ("next"). `stop_grace_s`: seconds between SIGTERM and SIGKILL.
    """

    redis: RedisQueueResource
    queue: str | QueuePartitions
    config: LeasedConfig | None = None
    max_messages: int = 1000
    on_settled: OnSettled = "skip"
    stop_grace_s: float = 10

    def __post_init__(self) -> None:
        check_batch("max_messages", self.max_messages)
        check_on_settled(self.on_settled)

    def run(  # type: ignore[override]  # Dagster's clients name their arguments instead of taking **kwargs
        self,
        *,
        context: identity.StepContext,
        command: Sequence[str],
        extras: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> LeasedInvocation:
        """Claim, run `command` to its end, build its materializations, and settle its messages.

        Raises `dagster.Failure` when the driver fails and `LeaseLost` when another holder got the messages.
        """
        with self.completed(context=context, command=command, extras=extras, env=env, cwd=cwd) as invocation:
            invocation.get_results()
        return invocation

    @contextmanager
    def completed(
        self,
        *,
        context: identity.StepContext,
        command: Sequence[str],
        extras: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> Iterator[LeasedInvocation]:
        """Do as `run`, around a block that builds the step's result; its end acks messages the driver left unsettled.

        An exception in the block is handled like a failure of the driver.

        >>> with pipes.completed(context=context, command=["spark-submit", "delays.py"]) as driver:
        ...     return driver.get_materialize_result()._replace(metadata=counted())
        """
        name, groups = claimed_from(self.queue, context)
        queue = self.redis.queue(name, self.config)
        lease, found = self._claimed(context, queue, groups)
        if lease is None:
            yield LeasedInvocation(context, {"rmq/queue": name, "rmq/claimed": 0, **found})
            return
        submission, started = Submission(queue, lease), time.monotonic()
        given = {**(env or {}), **submission.handover(self.redis.settings()).environment()}
        with concluding(context, submission, queue.config):
            reader, injector = dg.PipesTempFileMessageReader(), dg.PipesTempFileContextInjector()
            with dg.open_pipes_session(context, injector, reader, extras=dict(extras or {})) as session:
                given |= session.get_bootstrap_env_vars()
                # Innermost block: the driver's processes are gone before the outcome of the lease is decided.
                with DriverProcess(command, env=given, cwd=cwd, stop_grace_s=self.stop_grace_s) as driver:
                    _watch(context, driver, submission)
            with _acked_at_the_end(queue, submission) as acked:
                yield LeasedInvocation(context, self._metadata(name, lease, acked, time.monotonic() - started), session)

    def _claimed(
        self, context: identity.StepContext, queue: LeasedQueue, groups: Collection[str] | None
    ) -> tuple[Lease | None, dict[str, Any]]:
        terms = {"max_messages": self.max_messages, "on_settled": self.on_settled, "groups": groups}
        try:
            return claim(context, queue, **terms), {}  # type: ignore[arg-type]
        except LeaseAlreadySettled as settled:
            return None, {"rmq/acked_before": settled.acked}

    def _metadata(self, queue: str, lease: Lease, acked: int | None, seconds: float) -> dict[str, Any]:
        """Return the result's metadata; Dagster plots its numbers, such as `rmq/processed_per_minute`, over time."""
        return {
            "rmq/queue": queue,
            **console_link(queue, lease.id),
            "rmq/lease_id": lease.id,
            "rmq/claimed": lease.count,
            **({} if acked is None else {"rmq/acked": acked}),
            **shortened(lease, self.max_messages),
            "rmq/seconds": round(seconds, 3),
            "rmq/processed_per_minute": round(60 * lease.count / seconds, 1),
        }


@contextmanager
def _acked_at_the_end(queue: LeasedQueue, submission: Submission) -> Iterator[int | None]:
    """Yield how many messages are acked when the block succeeds; None when the driver settled them one by one."""
    submission.poll()
    if not submission.held:
        yield submission.finish()
        return
    with queue.hold(submission.lease):
        yield submission.lease.count
        submission.finish()


def _watch(context: identity.StepContext, driver: DriverProcess, submission: Submission) -> None:
    """Poll the lease until the driver ends. Raise `LeaseLost` as soon as another holder has its messages."""
    while (code := driver.wait(min(LOOK_S, submission.pace_s))) is None:
        try:
            submission.poll()
        except QueueUnavailable as error:
            # The driver continues while its lease lasts; the end of the run checks whether it lasted.
            context.log.warning("Cannot read the lease of the driver: %s", error)
    if code:
        raise dg.Failure(
            f"The driver {_ending(code)}; its output is in the compute logs.", metadata={"exit_code": code}
        )


def _ending(code: int) -> str:
    """Describe an exit code: a shell, and spark-submit, report a signal that killed a child as 128 + its number."""
    number = -code if code < 0 else code - 128
    if number not in set(signal.Signals):
        return f"ended with exit code {code}"
    return f"was killed by {signal.Signals(number).name} (exit code {code})"
