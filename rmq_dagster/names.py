"""Names that Dagster accepts, and links to the console."""

from __future__ import annotations

import os
import re
from urllib.parse import quote, urlsplit

import dagster as dg

from rmq_core import ConfigurationError


def dagster_name(queue: str) -> str:
    """Return a name that Dagster accepts for an object that belongs to a queue, or to an asset."""
    if not isinstance(queue, str):
        raise ConfigurationError(
            f"queue must be the name of one queue, or QueuePartitions where these are possible, not {queue!r:.80}. For"
            " several queues, make definitions for each and merge them: dg.Definitions.merge(*(redis_queue_definitions("
            "name, target=...) for name in names))"
        )
    return re.sub(r"\W+", "_", queue, flags=re.ASCII)


def queue_asset_name(queue: str) -> str:
    """Return the key that `redis_queue_definitions` gives the asset of a queue."""
    return f"{dagster_name(queue)}_queue"


def dead_letters_asset_name(queue: str) -> str:
    """Return the key of the asset of the dead letters of a queue, unless another one is given."""
    return f"{dagster_name(queue)}_dead_letters"


def lease_name(text: str) -> str:
    """Return a valid lease name: braces and control characters are percent-encoded, others stay as they are."""
    return "".join(each if each.isprintable() and each not in "{}" else _encoded(each) for each in text)


def _encoded(character: str) -> str:
    return quote(character, errors="surrogatepass")


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
