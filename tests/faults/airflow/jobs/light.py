"""A driver without Spark, for the short form: it adopts, holds, works and acks as a Spark job would."""

from __future__ import annotations

from rmq_core import LeasedQueue, LeaseLost
from rmq_core.orchestrate import Handover
from tests.faults.airflow.ledger import Ledger, fence_of

handover = Handover.from_environment()
ledger = Ledger(handover.queue)
with LeasedQueue(handover.settings, handover.queue, handover.config) as queue:
    lease = queue.adopt(handover.lease_id, if_owner=handover.owner)
    with queue.hold(lease):
        messages = list(queue.messages(lease))
        for message in messages:
            ledger.work(fence_of(lease.token), message.id, str(message.payload))
        ids = [message.id for message in messages]
        try:
            queue.ack(lease)
        except LeaseLost:
            ledger.write("stale", fence_of(lease.token), ids)
            raise
        ledger.write("acked", fence_of(lease.token), ids)
