"""What the discipline of a queue can do, and why not the rest, in words that the page shows beside each action."""

from __future__ import annotations

from typing import Any

from rmq_core.queue.verbs import LACKED, conditional, lacking_conditions, lacking_verb

_WITH_CONDITIONS = ("redrive", "purge")


def able(queue: Any) -> dict[str, Any]:
    """Return what the page can show beyond numbers; the discipline `leased` supports all of it."""
    return {
        "leases": hasattr(queue.admin, "leases"),
        "list": ["ready", "delayed", "dead"] if hasattr(queue.admin, "browse") else ["ready", "dead"],
        "choose": hasattr(queue.admin, "redrive_some"),
        "release": hasattr(queue.admin, "release_lease"),
    }


def past_of(queue: Any) -> dict[str, bool]:
    """Return whether a queue, or its class, counts what happens, and whether it explains a message."""
    return {name: hasattr(queue.admin, name) for name in ("history", "why")}


def lacks(queue: Any) -> dict[str, str]:
    """Return the names of the methods of `admin` that the queue has not, and why; `_where` stands for conditions."""
    found = {name: str(lacking_verb(queue.discipline, name)) for name in LACKED if not hasattr(queue.admin, name)}
    for name in _WITH_CONDITIONS:
        if not conditional(queue.admin, name):
            found[f"{name}_where"] = str(lacking_conditions(queue.discipline, name))
    return found
