"""A driver that a Pipes client runs: `pipes_driver.py BEHAVIOUR`. It finds its lease in the extras of its session."""

from __future__ import annotations

import sys

from dagster_pipes import open_dagster_pipes

from rmq_core import LeasedQueue
from rmq_core.orchestrate import Handover

with open_dagster_pipes() as pipes:
    handover = Handover.find()
    with LeasedQueue(handover.settings, handover.queue, handover.config) as queue:
        if sys.argv[1] == "ignore":
            sys.exit(0)
        if sys.argv[1] == "be_robbed":
            queue.adopt(handover.lease_id, owner="somebody else")
            sys.exit(0)
        lease = queue.adopt(handover.lease_id, if_owner=handover.owner)
        payloads = [message.payload for message in queue.messages(lease)]
        pipes.report_asset_materialization(metadata={"payloads": str(payloads), "extra": str(pipes.get_extra("mine"))})
        if sys.argv[1] == "fail":
            sys.exit(3)
        if sys.argv[1] == "ack":
            queue.ack(lease)
