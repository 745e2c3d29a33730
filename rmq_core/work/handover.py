"""One lease, two processes: a submitter claims it and hands it to a driver, which adopts it, works and settles.

Law: one holder at a time. The submitter keeps the lease alive until the driver adopts it under the same owner; from
then on it only watches. Being overtaken by its own driver is the plan; only a reclaim or another owner means that the
lease is lost. What passes between them stands in the environment of the driver's process, the one place that neither
`ps` nor Spark's pages show, and the token is not among it: adopting makes a new one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from rmq_core.connection.settings import RedisSettings
from rmq_core.discipline.leased.config import LeasedConfig
from rmq_core.discipline.leased.sync import LeasedQueue
from rmq_core.errors import ConfigurationError, LeaseAlreadySettled, LeaseLost, LeaseOwnedByOther, LeftUnsettled
from rmq_core.messages import Lease

NAMES = ("queue", "lease_id", "owner")
_LONGEST_PACE_S = 5.0
SECRETS = ("username", "password", "sentinel_username", "sentinel_password", "ssl_password")


@dataclass(frozen=True, slots=True)
class Handover:
    """A lease that waits to be adopted, and where it is. `owner` is who must still own it.

    `lease_ms` is for how long the submitter's queue holds a lease, `inf` for ever, None when it does not say.
    """

    settings: RedisSettings
    queue: str
    lease_id: str
    owner: str
    lease_ms: int | str | None = None

    @property
    def config(self) -> LeasedConfig:
        """For the driver's queue: it holds what it adopts no longer than the submitter would have."""
        if self.lease_ms is None:
            return LeasedConfig()
        return LeasedConfig(lease=None if self.lease_ms == "inf" else int(self.lease_ms) / 1000)

    def environment(self) -> dict[str, str]:
        """The variables that carry it; for a process environment only, for it holds the credentials."""
        names = {name: getattr(self, name) for name in NAMES}
        if self.lease_ms is not None:
            names["lease_ms"] = self.lease_ms
        given = {name: value for name in SECRETS if (value := getattr(self.settings, name))}
        names["credentials"] = list(given)  # those that a process inherits besides are of another server
        secrets = {_variable(name): value for name, value in given.items()}
        return {"RMQ_HANDOVER": json.dumps(names), "RMQ_URL": self.settings.url_without_credentials, **secrets}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """What the submitter left. Raises ConfigurationError where there is nothing, or nothing usable."""
        try:
            names = json.loads(environment["RMQ_HANDOVER"])
            queue, lease_id, owner = (names[name] for name in NAMES)
            url = environment["RMQ_URL"]
        except KeyError as missing:
            raise ConfigurationError(
                f"{missing} is missing: a submitter sets RMQ_HANDOVER ({', '.join(NAMES)} as JSON) and RMQ_URL;"
                " to work without a submitter, claim instead of adopting"
            ) from None
        except (ValueError, TypeError) as error:
            raise ConfigurationError(f"RMQ_HANDOVER must be a JSON object with {', '.join(NAMES)}") from error
        meant = names.get("credentials", SECRETS)
        secrets = {name: environment.get(_variable(name)) for name in SECRETS if name in meant}
        return cls(RedisSettings.from_url(url, **secrets), queue, lease_id, owner, names.get("lease_ms"))


class Submission:
    """What the submitter knows about the lease it hands over, and what it may still do with it."""

    def __init__(self, queue: LeasedQueue, lease: Lease) -> None:
        self.lease = lease
        self.adopted = False
        self._queue = queue
        self._settled_by_driver = False
        self._deadline = lease.deadline

    @classmethod
    def resumed(cls, queue: LeasedQueue, lease: Lease, fence: int) -> Self | None:
        """For a submitter that starts anew while its driver runs: `lease` and `fence` are those of its claim.

        A driver that has adopted is watched; what none has adopted yet is taken back. None when somebody else has it.
        """
        info = queue.lease_info(lease.id)
        if info is None or info.owner != lease.owner:
            return None
        if info.fence == fence:
            return cls(queue, queue.adopt(lease.id, owner=lease.owner, if_owner=lease.owner))
        watching = cls(queue, lease)
        watching.adopted, watching._deadline = True, info.deadline
        return watching

    @property
    def pace_s(self) -> float:
        """Seconds between two looks that keep the lease alive and notice a loss soon."""
        lease_ms = self._queue.config.lease_ms
        return _LONGEST_PACE_S if lease_ms == "inf" else min(_LONGEST_PACE_S, int(lease_ms) / 3000)

    @property
    def held(self) -> bool:
        """Whether the driver left the lease to the submitter, as far as the last look can tell."""
        return not (self.adopted or self._settled_by_driver)

    def handover(self, settings: RedisSettings) -> Handover:
        """What the driver needs in order to adopt."""
        return Handover(settings, self._queue.name, self.lease.id, self.lease.owner, self._queue.config.lease_ms)

    def look(self) -> None:
        """Keep the lease alive or, once the driver has adopted it, see that it still holds it. Raises LeaseLost.

        Call it every `pace_s` seconds. QueueUnavailable is no loss: the lease may well be alive.
        """
        if self._settled_by_driver:
            return
        if not self.adopted:
            with suppress(LeaseLost):
                self._deadline = self._queue.extend(self.lease)
                return
        info = self._queue.lease_info(self.lease.id)
        if info is None:
            self._explain_absence()
        elif info.owner != self.lease.owner:
            raise LeaseOwnedByOther(self.lease.id, f"it is owned by {info.owner!r}, not by {self.lease.owner!r}")
        else:
            self.adopted, self._deadline = True, info.deadline

    def finish(self) -> int | None:
        """After the driver's success: how many messages were acked, None when it settled them one by one.

        Acks here if the driver never adopted. Raises LeaseLost if others have the messages, LeftUnsettled if the
        driver adopted them and did not settle them.
        """
        if not self.adopted:
            with suppress(LeaseLost):
                self._queue.ack(self.lease)
                return self.lease.count
        record = self._queue.settled(self.lease.id)
        if record is not None and record.owner == self.lease.owner:
            return record.acked
        self.look()
        if not self._settled_by_driver:
            raise LeftUnsettled(
                f"the driver adopted lease {self.lease.id!r}, ended well and left messages unsettled; let it leave"
                " its batch by the end, or exit with an error code"
            )
        return None

    def keep(self, seconds: float | None = None) -> bool:
        """Take the lease back and hold it for `seconds`, by default an ordinary lease. False: nothing was left."""
        return self._take_back(seconds) is not None

    def give_up(self, reason: str) -> bool:
        """The last attempt failed: nack what is left. False: there was nothing left."""
        lease = self._take_back()
        if lease:
            self._queue.nack(lease, reason=reason)
        return lease is not None

    def give_back(self) -> bool:
        """Nobody's fault: release what is left. False: there was nothing left."""
        lease = self._take_back()
        if lease:
            self._queue.release(lease)
        return lease is not None

    def _take_back(self, seconds: float | None = None) -> Lease | None:
        # Adopting also fences off whatever is left of the driver, and under the same owner costs no delivery.
        owner = self.lease.owner
        with suppress(LeaseLost, LeaseAlreadySettled):
            return self._queue.adopt(self.lease.id, owner=owner, if_owner=owner, lease=seconds)
        return None

    def _explain_absence(self) -> None:
        """A lease goes by being settled or by being reclaimed, and nothing is reclaimed before its deadline.

        A driver that settles message by message leaves no record when one failed, and may do it all between two looks.
        """
        record = self._queue.settled(self.lease.id)
        in_time = self._deadline is None or self._queue.server_time() < self._deadline
        if record is not None and record.owner != self.lease.owner:
            raise LeaseOwnedByOther(self.lease.id, f"{record.owner!r} has acked its messages")
        self._settled_by_driver = record is not None or in_time
        if not self._settled_by_driver:
            raise LeaseLost(self.lease.id, "it was reclaimed")


def _variable(name: str) -> str:
    return f"RMQ_{name.upper()}"
