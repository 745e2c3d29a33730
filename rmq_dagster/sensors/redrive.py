# No deferred annotations: Dagster compares them with its own classes, so they must not become strings.
"""`redis_queue_redrive_job`: a job that returns chosen dead letters to their queue, launched by hand or by a sensor."""

from typing import Any

import dagster as dg
from pydantic import Field

from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue, Match
from rmq_core.orchestrate import acting_as
from rmq_dagster.assets.dead_letters import Letters
from rmq_dagster.names import console_link
from rmq_dagster.partitions import QueuePartitions, named_after, queue_of
from rmq_dagster.resources import resource_in
from rmq_dagster.runs.identity import QUEUE, REDRIVEN
from rmq_dagster.sensors.building import reported


class RedriveConfig(dg.Config):
    """Which dead letters to redrive: those that meet all given conditions, or everything."""

    reason: str | None = Field(
        default=None, description="Reason of the newest failure; numbers and ids do not matter, and * is any text."
    )
    group: str | None = Field(default=None, description="Group of the newest failure, as the asset's table shows it.")
    text: str | None = Field(default=None, description="Part of the payload as it is stored; case matters.")
    header: str | None = Field(default=None, description="`name`, or `name=value`.")
    message_id: str | None = Field(default=None, description="The whole id of a message.")
    everything: bool = Field(default=False, description="Redrive all dead letters; no condition is given then.")
    max_messages: int | None = Field(default=None, description="Redrive at most so many, the oldest first.")
    partition: str | None = Field(default=None, description="With queues for partitions: the partition.")

    def match(self) -> Match | None:
        """Return the conditions; None for everything. Raises ConfigurationError for neither or both."""
        given = {name: getattr(self, name) for name in ("reason", "group", "text", "header", "message_id")}
        conditions = {name: value for name, value in given.items() if value is not None}
        if bool(conditions) == self.everything:
            raise ConfigurationError(
                f"redrive needs a condition, one of {', '.join(given)}, or `everything: true`, but not both"
            )
        return Match(**conditions) if conditions else None


def redis_queue_redrive_job(
    queue: str | QueuePartitions,
    *,
    name: str | None = None,
    asset: dg.AssetKey | None = None,
    config: LeasedConfig | None = None,
    resource_key: str = "redis_queue",
) -> dg.JobDefinition:
    """Return a job that moves the dead letters that RedriveConfig chooses back to ready, with a fresh delivery budget.

    The job is named `<queue>_redrive`. The run has the tag `rmq/redriven`, and the output's metadata has the same
    number and how many dead letters are left. asset: the key of redis_queue_dead_letters, which is observed afterwards.

    >>> ops: {redrive_orders: {config: {reason: "ValueError: cannot read #"}}}
    """
    named, settings = named_after(queue), config

    @dg.op(name=f"redrive_{named}", required_resource_keys={resource_key}, out=dg.Out(int))
    def redrive(context: dg.OpExecutionContext, config: RedriveConfig) -> int:
        resource = resource_in(context, resource_key)
        opened = resource.queue(queue_of(queue, config.partition), settings)
        with acting_as(f"dagster:{context.job_name}/{context.run.run_id}"):  # for the history and the journal
            moved = opened.admin.redrive(config.max_messages, where=config.match())
        _report(context, opened, moved)
        if asset is not None:
            context.log_event(reported(Letters(opened).observation(context.instance, asset)))
        return moved

    def job() -> None:
        redrive()

    return dg.job(name=name or f"{named}_redrive", description=f"Redrive chosen dead letters of {named!r}.")(job)


def _report(context: dg.OpExecutionContext, queue: LeasedQueue, moved: int) -> None:
    left = queue.stats().dead
    context.log.info("Redrove %d dead letter(s) of %r; %d are left", moved, queue.name, left)
    context.instance.add_run_tags(context.run.run_id, {QUEUE: queue.name, REDRIVEN: str(moved)})
    counts: dict[str, Any] = {"rmq/queue": queue.name, "rmq/redriven": moved, "rmq/dead_letters": left}
    context.add_output_metadata({**counts, **console_link(queue.name)})
