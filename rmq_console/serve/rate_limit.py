"""The limit on failed logins of an address.

After ten failures within a minute, `rmq serve` refuses every request of the address, even one with a valid token:
otherwise a guesser could go on until a token is accepted. It keeps the newest 10,000 addresses.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network

MOST, WINDOW_S = 10, 60.0
ADDRESSES = 10_000


class FailedTries:
    """The times of the failed tries of each address; all addresses of an IPv6 network of 64 bits count as one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tries: OrderedDict[str, list[float]] = OrderedDict()

    def wait_s(self, address: str) -> int:
        """Return for how many seconds the address must wait; 0 when it may try."""
        recent = self._recent(_network_of(address))
        return 0 if len(recent) < MOST else max(1, round(recent[-MOST] + WINDOW_S - self._clock()))

    def add(self, address: str) -> None:
        """Count a failed try."""
        network = _network_of(address)
        self._tries[network] = [*self._recent(network)[-MOST:], self._clock()]
        self._tries.move_to_end(network)
        while len(self._tries) > ADDRESSES:
            self._tries.popitem(last=False)

    def _recent(self, network: str) -> list[float]:
        since = self._clock() - WINDOW_S
        return [at for at in self._tries.get(network, ()) if at > since]


def _network_of(address: str) -> str:
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped or ip_network((parsed, 64), strict=False))
    return str(parsed)
