"""Names: a queue's may have any characters, Dagster's have letters of ASCII, digits and underscores."""

from __future__ import annotations

import re
from urllib.parse import quote


def dagster_name(queue: str) -> str:
    """What Dagster accepts as the name of something that belongs to a queue, or to an asset."""
    return re.sub(r"\W+", "_", queue, flags=re.ASCII)


def lease_name(text: str) -> str:
    """What a lease accepts as its name: braces and control characters are percent-encoded, others stay as they are."""
    return "".join(each if each.isprintable() and each not in "{}" else _encoded(each) for each in text)


def _encoded(character: str) -> str:
    return quote(character, errors="surrogatepass")
