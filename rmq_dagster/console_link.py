"""A link from Dagster's metadata to the console of `rmq serve`, whose address the variable `RMQ_CONSOLE` gives."""

from __future__ import annotations

import os
from urllib.parse import quote, urlsplit

import dagster as dg

from rmq_core import ConfigurationError

VARIABLE = "RMQ_CONSOLE"
PLACE = "redis"  # the id of the one server that `rmq serve` shows


def console_link(queue: str, lease_id: str | None = None) -> dict[str, dg.UrlMetadataValue]:
    """Return `rmq/console` and, for a lease, `rmq/lease`: the addresses of their pages; empty without the variable."""
    address = page_of(queue)
    if address is None:
        return {}
    links = {"rmq/console": dg.MetadataValue.url(address)}
    return links if lease_id is None else links | {"rmq/lease": dg.MetadataValue.url(f"{page_of(queue, lease_id)}")}


def page_of(queue: str, lease_id: str | None = None) -> str | None:
    """Return the address of the page of a queue, or of a lease, in the console; None without the variable."""
    address = os.environ.get(VARIABLE, "").rstrip("/")
    if not address:
        return None
    if urlsplit(address).scheme not in {"http", "https"}:
        raise ConfigurationError(f"{VARIABLE} must be an http address, that of `rmq serve`, not {address!r}")
    parts = [PLACE, queue] if lease_id is None else [PLACE, queue, "leases", lease_id]
    return f"{address}/#/{'/'.join(quote(part, safe='') for part in parts)}"
