"""Names: a queue name may have any characters; a Dagster name has only ASCII letters, digits and underscores."""

from __future__ import annotations

import re
from urllib.parse import quote

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
