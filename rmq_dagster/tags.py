"""The run tags that RMQ reads and writes. A tag is public and a database row, so it holds only names and counts."""

from __future__ import annotations

from typing import Final

QUEUE: Final = "rmq/queue"
CLAIMED: Final = "rmq/claimed"
"""How many messages the run claimed of the queue it was requested for. Absent until the run has made that claim."""
ISOLATED: Final = "rmq/isolated"
"""Present, and "true": the run got messages that have failed together before and are tried apart from the others."""
RING: Final = "rmq/ring"
"""The queue and the fence that it had when the run was requested: the same for all requests until the next claim."""
LEASE: Final = "rmq/lease_id"
"""The lease that a claiming sensor took for the run. It is only a name, which gives its reader no right to settle."""
REDRIVEN: Final = "rmq/redriven"
"""How many dead letters a run moved back to ready."""

# Dagster's own tags, for which it exports no public names.
SENSOR: Final = "dagster/sensor_name"
REPOSITORY: Final = ".dagster/repository"
TICK: Final = "dagster/tick"
RUN_KEY: Final = "dagster/run_key"
WILL_RETRY: Final = "dagster/will_retry"
AUTO_RETRY: Final = "dagster/auto_retry_run_id"
ROOT: Final = "dagster/root_run_id"
PARTITION: Final = "dagster/partition"
DATA_VERSION: Final = "dagster/data_version"
