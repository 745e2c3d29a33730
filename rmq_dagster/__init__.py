"""Dagster on RMQ: a resource, sensors, assets and checks, and a Pipes client that runs Spark on a lease.

Runs claim, hold their lease while they work and ack at their end; sensors only request runs.
"""

from __future__ import annotations

from dagster_shared.libraries import DagsterLibraryRegistry

from rmq_core import __version__
from rmq_core.orchestrate import Outbox
from rmq_dagster.assets.checks import Limit, QueueLimits, redis_queue_checks, redis_queue_publication_check
from rmq_dagster.assets.dead_letters import redis_queue_dead_letters
from rmq_dagster.assets.queue import publish_op, redis_queue_asset
from rmq_dagster.definitions import redis_queue_definitions
from rmq_dagster.partitions import QueuePartitions
from rmq_dagster.pipes import LeasedInvocation, PipesRedisQueueSparkClient
from rmq_dagster.resources import RedisQueueResource
from rmq_dagster.runs.claiming import ClaimedBatch
from rmq_dagster.runs.submitting import SubmittedBatch
from rmq_dagster.sensors.building import build_redis_queue_sensor, redis_queue_observer
from rmq_dagster.sensors.publications import redis_queue_publication_sensor
from rmq_dagster.sensors.redrive import RedriveConfig, redis_queue_redrive_job
from rmq_dagster.sensors.status import redis_queue_status_sensors

__all__ = [
    "ClaimedBatch", "LeasedInvocation", "Limit", "Outbox", "PipesRedisQueueSparkClient", "QueueLimits",
    "QueuePartitions", "RedisQueueResource", "RedriveConfig", "SubmittedBatch", "build_redis_queue_sensor",
    "publish_op", "redis_queue_asset", "redis_queue_checks", "redis_queue_dead_letters", "redis_queue_definitions",
    "redis_queue_observer", "redis_queue_publication_check", "redis_queue_publication_sensor",
    "redis_queue_redrive_job", "redis_queue_status_sensors",
]  # fmt: skip

DagsterLibraryRegistry.register("rmq", __version__, is_dagster_package=False)
