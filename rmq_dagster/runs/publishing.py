"""`Outbox`: messages that a step publishes once, however often it is retried; and the headers that name it.

They are staged, invisible to consumers, and published together at the end of the block, under a name that retries of
the step share. Redis remembers which blocks of that name were published, and drops the messages of a repetition.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import dagster as dg
from dagster import DagsterInvariantViolationError

from rmq_core import LeasedQueue, Stage
from rmq_core.orchestrate import PUBLISHERS
from rmq_dagster.runs import identity

JOB, RUN, STEP = PUBLISHERS["dagster"]


def headers_of(run: dg.DagsterRun | None) -> dict[str, str]:
    """Return the headers of the step that runs in this thread, else those of `run`; none outside of a run.

    Threads that a step starts do not know their step, so the run has to do.
    """
    try:
        context = dg.OpExecutionContext.get()
    except DagsterInvariantViolationError:
        return {} if run is None else {JOB: run.job_name, RUN: run.run_id}
    step = context.get_step_execution_context().step.key
    return {JOB: context.run.job_name, RUN: context.run.run_id, STEP: step}


class Outbox:
    """Collects messages for one queue. `published`: whether this block published them; None while it runs.

    False: an earlier try of the step had published its block, and these messages were dropped.
    """

    def __init__(self, queue: LeasedQueue) -> None:
        self.published: bool | None = None
        self.stages: list[Stage] = []
        self._queue = queue

    def publish(
        self,
        payloads: Iterable[Any],
        *,
        dedup_key: Callable[[Any], str] | None = None,
        headers: Mapping[str, str] | None = None,
        group: str | None = None,
        priority: int | None = None,
        publication: str | None = None,
        expires: timedelta | float | datetime | None = None,
    ) -> int:
        """Stage messages for the end of the block; return how many. Raises PayloadError and QueueFull.

        group, priority, publication, expires: in a queue that has groups; a NewMessage may have its own.
        """
        turn: dict[str, Any] = {"group": group, "priority": priority, "publication": publication, "expires": expires}
        self.stages.append(self._queue.stage(payloads, dedup_key=dedup_key, headers=headers, **turn))
        return self.stages[-1].count


@contextmanager
def collecting(context: identity.StepContext, queue: LeasedQueue) -> Iterator[Outbox]:
    """Publish what the block staged if it ends without an error, else drop it."""
    outbox = Outbox(queue)
    number = next(_numbers[context.run.run_id, identity.lease_id(context), context.retry_number, queue.name])
    try:
        yield outbox
    except BaseException:
        queue.drop_staged(outbox.stages)
        raise
    outbox.published = queue.publish_staged(outbox.stages, sink=identity.lease_id(context), batch=number)
    if not outbox.published:
        context.log.info("An earlier try of this step has published to %r; nothing was published again.", queue.name)


_numbers: dict[tuple[str, str, int, str], Iterator[int]] = defaultdict(lambda: itertools.count(1))
"""Numbers the outboxes of each try of a step, so that a retry finds those that were published before."""
