"""The run tags that RMQ reads and writes. A tag is public and a database row: names and counts, nothing else."""

from __future__ import annotations

from typing import Final

QUEUE: Final = "rmq/queue"
CLAIMED: Final = "rmq/claimed"
"""How many messages the run claimed of the queue it was rung for. Present: it is past that claim, whatever it does."""
ISOLATED: Final = "rmq/isolated"
"""Present, and "true": the run got messages that have failed together before and are tried apart from the others."""
LEASE: Final = "rmq/lease_id"
"""The lease that a claiming sensor took for the run: a name, which gives nobody the right to settle it."""

# Dagster's own, which it exports under no public name.
SENSOR: Final = "dagster/sensor_name"
REPOSITORY: Final = ".dagster/repository"
RUN_KEY: Final = "dagster/run_key"
WILL_RETRY: Final = "dagster/will_retry"
AUTO_RETRY: Final = "dagster/auto_retry_run_id"
ROOT: Final = "dagster/root_run_id"
PARTITION: Final = "dagster/partition"
