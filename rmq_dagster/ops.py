# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""`publish_op`: an op that publishes its input to a queue."""

from typing import Any

import dagster as dg

from rmq_core import LeasedConfig
from rmq_dagster.assets import about
from rmq_dagster.names import dagster_name
from rmq_dagster.resources import resource_in


def publish_op(
    queue: str, *, name: str | None = None, config: LeasedConfig | None = None, resource_key: str = "redis_queue"
) -> dg.OpDefinition:
    """Return an op that publishes a list of payloads and outputs how many were accepted; its metadata has duplicates.

    >>> @dg.job
    >>> def publish_orders(): publish_op("orders")(todays_orders())
    """

    @dg.op(
        name=name or "publish_to_" + dagster_name(queue),
        description=f"Publish to the Redis queue {queue!r}.",
        required_resource_keys={resource_key},
        ins={"payloads": dg.In(list, description="Strings, bytes, dicts or lists; each one is a message.")},
        out=dg.Out(int, description="How many messages were accepted."),
    )
    def publish(context: dg.OpExecutionContext, payloads: list[Any]) -> int:
        resource = resource_in(context, resource_key)
        report = resource.publish(queue, payloads, config=config)
        counts = {**about(queue), "rmq/published": report.accepted, "rmq/duplicates": report.duplicates}
        context.add_output_metadata({**counts, "rmq/dropped": report.dropped})
        return report.accepted

    return publish
