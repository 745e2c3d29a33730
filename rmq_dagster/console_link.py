"""A link from Dagster's metadata to the console of `rmq serve`, whose address the variable `RMQ_CONSOLE` gives."""

from __future__ import annotations

import os
from urllib.parse import quote, urlsplit

import dagster as dg

from rmq_core import ConfigurationError

VARIABLE = "RMQ_CONSOLE"
PLACE = "redis"  # the id of the one server that `rmq serve` shows


def console_link(queue: str) -> dict[str, dg.UrlMetadataValue]:
    """Return `rmq/console`, the address of a queue's page in the console; empty without the variable."""
    address = os.environ.get(VARIABLE, "").rstrip("/")
    if not address:
        return {}
    if urlsplit(address).scheme not in {"http", "https"}:
        raise ConfigurationError(f"{VARIABLE} must be an http address, that of `rmq serve`, not {address!r}")
    return {"rmq/console": dg.MetadataValue.url(f"{address}/#/{PLACE}/{quote(queue, safe='')}")}
