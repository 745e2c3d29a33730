"""What the server that mounts the console supplies to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypedDict

from fastapi import Request

from rmq_core import LeasedConfig, RedisSettings
from rmq_core.console.audit import AuditLog
from rmq_core.work import ALERTS, AlertLimits

Right = Literal["numbers", "server", "messages", "change"]
"""To see how many messages there are and who holds them; to see the server's address and the texts of errors, which may
name it; to see messages; to change a queue."""


class ServedPlace(NamedTuple):
    """A server whose queues the console shows: the id in the console's addresses, and where it is configured."""

    id: str
    source: str


class Holder(TypedDict):
    """The work that holds a lease.

    names: from the outermost to the innermost, such as a DAG and its task. run: which run of it. attempt: which try.
    href: the address of its page, None without one.
    """

    names: list[str]
    run: str
    attempt: str
    href: str | None


HolderOf: TypeAlias = Callable[[str], Holder | None]
"""Returns the work that an owner names; None for an owner of another kind."""


class Access(Protocol):
    """Who the users are and what they may do. Every method may raise an HTTPException, which is the answer."""

    @property
    def identify(self) -> Callable[..., Any]:
        """Return FastAPI's dependency for every route, which refuses a request or sets `request.state.user`."""

    def permitted(self, user: Any, place: str, right: Right) -> bool:
        """Return whether the user has the right on that server; may block."""

    def name(self, user: Any) -> str:
        """Return the name for the audit log."""


class Places(Protocol):
    """The servers. Both methods may block."""

    def known(self) -> Sequence[ServedPlace]:
        """Return all servers, in the order in which the console lists them."""

    def settings(self, place: str) -> RedisSettings:
        """Return the settings of a server. Raises LookupError when it is not one of those that `known` returns."""


@dataclass(frozen=True)
class Words:
    """Texts that name the host.

    server: who answers the browser. no_numbers, no_messages, no_change: why a request is refused. no_server: what users
    without the right `server` read in place of an error. foreign: why a change that comes from another page is refused.
    hidden: what to do when all servers are hidden from the user. nothing: how to add a server, and an example. publish:
    how to publish a first message, and an example. logout: where the page logs the user out, if it does.
    """

    server: str
    no_numbers: str
    no_messages: str
    no_change: str
    foreign: str
    hidden: str
    nothing: tuple[str, str]
    publish: tuple[str, str]
    logout: str = ""
    no_server: str = ""

    def refusal(self, right: Right) -> str:
        """Return why a request that needs the right is refused."""
        named = {"numbers": self.no_numbers, "server": self.no_server}
        return {**named, "messages": self.no_messages, "change": self.no_change}[right]


ConfigOf: TypeAlias = Callable[[str, str], Any]
"""Returns the config with which the console opens a queue, from its name and its discipline; None for the defaults."""
RETRY_S = 1.0


def default_config(name: str, discipline: str) -> Any:
    """Return a config that gives up early, so that an answer about a server that hangs comes in time."""
    del name
    return LeasedConfig(retry_budget=RETRY_S) if discipline == "leased" else None


@dataclass(frozen=True)
class Host:
    """All that the console is given.

    holder: returns the work that an owner names, None for other owners. config: the settings of queues; to expire a
    lease, `max_deliveries` has to be that of the queue's consumers, and to search for a deduplication key, `dedup_key`.
    limits: from which numbers on a queue needs attention; the same as those of the alerts.
    """

    access: Access
    places: Places
    audit: AuditLog
    holder: HolderOf
    words: Words
    config: ConfigOf = default_config
    limits: AlertLimits = ALERTS


def host_of(request: Request) -> Host:
    """Return the host of the application that answers a request."""
    found: Host = request.app.state.host
    return found
