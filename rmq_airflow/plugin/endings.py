"""Which leases to release: those whose holder this Airflow knew, and which has been over for a while. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rmq_airflow.plugin.instances import Standing

GRACE_S = 10.0
"""A task that is marked while it runs hears of it at its next heartbeat, after 5 s, and gives its messages back itself.

Also what tells a mark from a clear: the click that marks is often followed by another that clears.
"""


class Endings:
    """What was seen of holders at earlier looks.

    A task instance that is missing has ended only if it is known to have been there, now or at an earlier look.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._since: dict[str, float] = {}

    def due(self, standings: Mapping[str, Standing], now: float) -> dict[str, str]:
        """Why the leases of these owners are to be released `now`; owners that are not given are forgotten."""
        self._known = {owner for owner, standing in standings.items() if standing.known or owner in self._known}
        ended = {owner: standings[owner].reason for owner in self._known}
        self._since = {owner: self._since.get(owner, now) for owner, reason in ended.items() if reason is not None}
        ripe = {owner for owner, since in self._since.items() if now - since >= GRACE_S}
        return {owner: reason for owner, reason in ended.items() if owner in ripe and reason is not None}
