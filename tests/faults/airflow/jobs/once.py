"""A driver that adopts and acks; where it is configured to, it fails in between."""

from __future__ import annotations

import sys

from rmq_core import LeasedQueue
from rmq_core.orchestrate import Handover
from tests.faults.airflow.ledger import Ledger

handover = Handover.from_environment()
with LeasedQueue(handover.settings, handover.queue, handover.config) as queue:
    lease = queue.adopt(handover.lease_id, if_owner=handover.owner)
    if (Ledger(handover.queue).folder / "keeps").exists():
        sys.exit(3)
    queue.ack(lease)
