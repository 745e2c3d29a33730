"""The ways of working that faults befall, as tests and deployment know them; each has queues of its own."""

from __future__ import annotations

import dagster as dg

from rmq_core import LeasedConfig
from rmq_dagster import QueuePartitions

TITLES = {"doorbell": "doorbell", "partition": "partition", "claim": "claim", "spark": "Pipes Spark"}
MODES = tuple(TITLES)
TENANTS = QueuePartitions("partition", dg.DynamicPartitionsDefinition(name="tenants"))
QUEUES = {
    "doorbell": ["doorbell"],
    "partition": [TENANTS.queue("Süd & Co")],
    "claim": ["claim"],
    "spark": ["spark"],
}
LEASE_S = 20
CLAIM_FOR_S = 60
BATCH = 2
CONFIG = LeasedConfig(lease=LEASE_S, max_deliveries=5)

# What the definitions are told, in their environment.
URL = "RMQ_FAULTS_URL"
RETRIES = "RMQ_FAULTS_RETRIES"  # how often Dagster retries a run
ENDINGS = "RMQ_FAULTS_ENDINGS"  # "on": with status sensors
DRIVER = "RMQ_FAULTS_DRIVER"  # "spark", or "plain" where there is no time for Java
