"""Select the leases to take back: this Airflow knew their holder, and the holder ended some time ago. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rmq_airflow.plugin.instances import Standing

GRACE_S = 10.0
"""How long a holder must have ended before its lease is taken back.

A user can mark a running task as ended. The task learns of it at its next heartbeat, after 5 s, and then releases its
messages itself. The time also allows for a user who marks a task and clears it right afterwards.
"""


class Endings:
    """The state of holders as seen at earlier polls.

    A missing task instance counts as ended only if it is known, now or from an earlier poll, to have existed.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._since: dict[str, float] = {}

    def due(self, standings: Mapping[str, Standing], now: float) -> dict[str, Standing]:
        """Return the owners whose leases to take back `now`; forget owners missing from `standings`."""
        self._known = {owner for owner, standing in standings.items() if standing.known or owner in self._known}
        ended = [owner for owner in self._known if standings[owner].reason is not None]
        self._since = {owner: self._since.get(owner, now) for owner in ended}
        return {owner: standings[owner] for owner in ended if now - self._since[owner] >= GRACE_S}
