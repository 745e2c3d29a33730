"""A host of the console with users whose names are their rights, one Redis server, and an audit log in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import HTTPException, Request

from rmq_console import Holder, Host, Right, ServedPlace, Words
from rmq_core import RedisSettings

PLACE = "redis"
RIGHTS: dict[str, tuple[Right, ...]] = {
    "counter": ("numbers",),
    "reader": ("numbers", "server"),
    "viewer": ("numbers", "server", "messages"),
    "changer": ("numbers", "server", "messages", "change"),
}
WORDS = Words(
    server="The server of the tests",
    no_numbers="no right to numbers",
    no_messages="no right to messages",
    no_change="no right to change",
    foreign="changes are accepted only from our own page",
    hidden="hidden",
    nothing=("", ""),
    publish=("Publish a first message:", "rmq publish work hello"),
    no_server="no right to the server",
)


class NamedUsers:
    """Believes the header X-User, and the cookie of that name."""

    def identify(self, request: Request) -> None:
        """Require a user."""
        request.state.user = request.headers.get("X-User") or request.cookies.get("X-User")
        if request.state.user not in RIGHTS:
            raise HTTPException(401, "nobody is logged in")

    def permitted(self, user: Any, place: str, right: Right) -> bool:
        """Return whether the name of the user stands for the right."""
        return place == PLACE and right in RIGHTS[user]

    def name(self, user: Any) -> str:
        """Return the name of the user."""
        return str(user)


class OnePlace:
    """A Redis server."""

    def __init__(self, url: str) -> None:
        self._settings = RedisSettings.from_url(url)

    def known(self) -> Sequence[ServedPlace]:
        """Return the one server."""
        return [ServedPlace(PLACE, "test")]

    def settings(self, place: str) -> RedisSettings:
        """Return its settings."""
        if place != PLACE:
            raise LookupError(f"there is no connection {place!r}")
        return self._settings


class Kept:
    """Keeps the lines of the audit log: of each change one before it, and one with its outcome."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.broken = False

    def write(self, event: str, user: str, fields: Mapping[str, Any]) -> int:
        """Keep the line before a change."""
        if self.broken:
            raise RuntimeError("no log")
        self.complete(0, event, user, fields)
        return 0

    def complete(self, entry: Any, event: str, user: str, fields: Mapping[str, Any]) -> None:
        """Keep the line with the outcome."""
        del entry
        self.lines.append({"event": event, "user": user, **fields})


def holder_of(owner: str) -> Holder | None:
    """Return the task of an owner such as `task:etl/load`."""
    kind, _, path = owner.partition(":")
    names = path.split("/")
    return {"names": names, "run": "run-1", "attempt": "try 1", "href": f"/tasks/{path}"} if kind == "task" else None


def make_host(url: str, audit: Kept, **more: Any) -> Host:
    """Return a host for the server at this URL."""
    return Host(NamedUsers(), OnePlace(url), audit, holder_of, WORDS, **more)
