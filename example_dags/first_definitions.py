"""The first Dagster definitions of a queue: orders wait in Redis, and a run claims up to a hundred and writes invoices.

export RMQ_URL=redis://localhost:6379/0
dagster dev --python-file example_dags/first_definitions.py
rmq publish orders --json-payload '{"order": 1}' '{"order": 2}'
"""

# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
import dagster as dg

from rmq_dagster import RedisQueueResource, redis_queue_definitions


@dg.asset
def invoices(context: dg.AssetExecutionContext, redis_queue: RedisQueueResource) -> dg.MaterializeResult[None]:
    """Write the invoice of each order that this run has claimed; the orders are acked when the block ends."""
    with redis_queue.claimed(context, "orders", max_messages=100) as batch:
        for message in batch:
            context.log.info("writing the invoice of %s", message.payload)
        return dg.MaterializeResult(metadata=batch.metadata)


defs = dg.Definitions.merge(
    dg.Definitions(assets=[invoices]),
    redis_queue_definitions(
        "orders",
        target=invoices,
        batch=100,
        default_status=dg.DefaultSensorStatus.RUNNING,
        resource=RedisQueueResource(url=dg.EnvVar("RMQ_URL")),
    ),
)
