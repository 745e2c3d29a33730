"""How a handover gets into a driver: as a parameter, as an extra of Dagster Pipes, or in its environment.

All three carry the same JSON object. This module knows where it is, not what it means.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rmq_core.errors import ConfigurationError

FLAG = "--rmq-handover"
EXTRA = "rmq_handover"
VARIABLE = "RMQ_HANDOVER"


class Carried(NamedTuple):
    """The JSON object of a handover, and the words for the place where it was found."""

    place: str
    names: Mapping[str, Any]


def written(names: Mapping[str, Any]) -> str:
    """Return the names as JSON without `{{` and `}}`, which YARN, Databricks and Jinja replace in parameters.

    The last value must not be an object.
    """
    text = json.dumps(names, separators=(",", ":"))
    return text.replace("{{", "{\\u007b").replace("}}", "}\\u007d")  # only texts have two in a row


def in_parameters(argv: Sequence[str]) -> Carried | None:
    """Find `--rmq-handover JSON` or `--rmq-handover=JSON`. Raises ConfigurationError if it is there twice."""
    found = [text for at, text in enumerate(argv[1:]) if argv[at] == FLAG]
    found += [text.partition("=")[2] for text in argv if text.startswith(f"{FLAG}=")]
    if len(found) > 1:
        raise ConfigurationError(f"{FLAG} is given {len(found)} times; a driver adopts one lease")
    return Carried(FLAG, decoded(FLAG, found[0])) if found else None


def in_extras(extras: Mapping[str, Any]) -> Carried | None:
    """Find the extra `rmq_handover`."""
    return Carried(f"the extra {EXTRA}", checked(EXTRA, extras[EXTRA])) if EXTRA in extras else None


def in_pipes() -> Carried | None:
    """Find the extra of the Pipes session that this process has opened, if it has; this imports nothing."""
    context = getattr(sys.modules.get("dagster_pipes"), "PipesContext", None)
    return in_extras(context.get().extras) if context is not None and context.is_initialized() else None


def in_environment(environment: Mapping[str, str]) -> Carried | None:
    """Find `RMQ_HANDOVER`, with the address of `RMQ_URL`."""
    if VARIABLE not in environment:
        return None
    url = {"url": environment["RMQ_URL"]} if "RMQ_URL" in environment else {}
    return Carried(VARIABLE, url | dict(decoded(VARIABLE, environment[VARIABLE])))


def decoded(place: str, text: str) -> Mapping[str, Any]:
    """Return the JSON object in `text`. Raises ConfigurationError for anything else."""
    try:
        return checked(place, json.loads(text))
    except ValueError:
        return checked(place, None)


def checked(place: str, names: object) -> Mapping[str, Any]:
    """Return `names` if it is a mapping. Raises ConfigurationError for anything else."""
    if not isinstance(names, Mapping):
        raise ConfigurationError(f"{place} must be the JSON object that a submitter writes for its driver")
    return names
