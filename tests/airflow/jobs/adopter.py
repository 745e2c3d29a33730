"""A driver that gets its lease as a parameter: `adopter.py BEHAVIOUR MARKER --rmq-handover JSON`."""

from __future__ import annotations

import sys
from pathlib import Path

from rmq_core import LeasedQueue
from rmq_core.orchestrate import Handover

behaviour, marker = sys.argv[1], Path(sys.argv[2])
handover = Handover.find()
with LeasedQueue(handover.settings, handover.queue, handover.config) as queue:
    lease = queue.adopt(handover.lease_id, if_owner=handover.owner)
    with marker.open("a") as file:
        file.write(f"{lease.count} {sorted(message.payload for message in queue.messages(lease))}\n")
    if behaviour == "fail" or (behaviour == "fail_once" and len(marker.read_text().splitlines()) == 1):
        queue.extend(lease, (handover.adopt_ms or 0) / 1000)
        sys.exit(3)
    queue.ack(lease)
