"""Select the leases to release: this Airflow knew their holder, and the holder ended some time ago. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rmq_airflow.plugin.instances import Standing

GRACE_S = 10.0
"""How long a holder must have ended before its lease is released.

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

    def due(self, standings: Mapping[str, Standing], now: float) -> dict[str, str]:
        """Return the owners whose leases to release `now`, with the reason; forget owners missing from `standings`."""
        self._known = {owner for owner, standing in standings.items() if standing.known or owner in self._known}
        ended = {owner: standings[owner].reason for owner in self._known}
        self._since = {owner: self._since.get(owner, now) for owner, reason in ended.items() if reason is not None}
        ripe = {owner for owner, since in self._since.items() if now - since >= GRACE_S}
        return {owner: reason for owner, reason in ended.items() if owner in ripe and reason is not None}
