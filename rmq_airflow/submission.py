"""One lease from the submitter's side: claimed here, handed to a driver, watched, and concluded.

Law: one holder at a time. The submitter holds until the driver adopts; it knows an adoption of its own submission by
the owner, which stays the same while the token changes. Afterwards it only watches. Success rests on positive evidence:
the `done` record, or an ack with the submitter's own token. Only a reclaim or a foreign owner counts as lost.
"""

from __future__ import annotations

import contextlib
import json
import logging
from typing import TYPE_CHECKING

from rmq_core import LeaseAlreadySettled, LeaseLost, RedisMessageQueueError

if TYPE_CHECKING:
    from rmq_core import Lease, LeasedQueue, RedisSettings

HANDOVER = "RMQ_HANDOVER"
_SECRETS = ("username", "password", "sentinel_username", "sentinel_password", "ssl_password")
log = logging.getLogger(__name__)


def driver_environment(settings: RedisSettings, lease: Lease) -> dict[str, str]:
    """What a driver needs to adopt the lease, for its process environment only: it holds the credentials."""
    secrets = {f"RMQ_{name.upper()}": getattr(settings, name) for name in _SECRETS}
    handover = {"queue": lease.queue, "lease_id": lease.id, "owner": lease.owner}
    given = {name: value for name, value in secrets.items() if value}
    return {"RMQ_URL": settings.url_without_credentials, HANDOVER: json.dumps(handover), **given}


class Submission:
    """A claimed lease on its way through a driver."""

    def __init__(self, queue: LeasedQueue, lease: Lease) -> None:
        self.queue = queue
        self.lease = lease
        self.adopted = False

    def check(self) -> None:
        """Note whether the driver has adopted; LeaseLost when somebody else has the messages."""
        if not self.lease.lost or (not self.adopted and self._still_holds()):
            return
        info = self.queue.lease_info(self.lease.id)
        if info is not None and info.owner == self.lease.owner:
            if not self.adopted:
                log.info("the driver has adopted lease %s", self.lease.id)
            self.adopted = True
            return
        if info is not None or not self._is_done():
            raise LeaseLost(self.lease.id, "it was reclaimed, or another owner has it")

    def finish(self) -> int:
        """After a driver's success: the number of messages acked. LeaseLost when nothing proves that they were."""
        if self._is_done():
            return self.lease.count
        try:
            self.queue.ack(self.lease)
        except LeaseLost as error:
            if self._is_done():
                return self.lease.count
            raise LeaseLost(
                self.lease.id,
                "the driver ended well, but the lease is neither held by this task nor acked whole: it was reclaimed, "
                "or the job adopted it and then gave messages back or did not settle them",
            ) from error
        return self.lease.count

    def give_back(self, keep_s: float | None, reason: str) -> None:
        """After a failure: keep the lease `keep_s` seconds for the retry, or with None nack its messages.

        Adopting first fences off a driver that is still alive, and costs no delivery. Never raises for Redis's part:
        what fails here is done by the lease's expiry, later.
        """
        owner = self.lease.owner
        try:
            with contextlib.suppress(LeaseLost, LeaseAlreadySettled):
                mine = self.queue.adopt(self.lease.id, owner=owner, if_owner=owner)
                if keep_s is None:
                    self.queue.nack(mine, reason=reason)
                else:
                    self.queue.extend(mine, by=keep_s)
        except RedisMessageQueueError:
            log.warning("lease %s was left as it is; it returns when it expires", self.lease.id, exc_info=True)

    def _still_holds(self) -> bool:
        """The heartbeat gives up when Redis is away for the length of a lease; nobody else need have come meanwhile."""
        try:
            self.queue.extend(self.lease)
        except LeaseLost:
            return False
        return True

    def _is_done(self) -> bool:
        record = self.queue.settled(self.lease.id)
        return record is not None and record.owner == self.lease.owner
