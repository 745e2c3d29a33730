"""What the server that mounts the console supplies to it; the rights that routes require; the audit log.

Law: it fails closed. A route requires a right of the user, and for changes a request from the console's own page. A
check that raises an error ends the request, and no route answers without one. The entry in the audit log is written
before anything changes, and without an entry no change is made. The outcome is written when it is known. It stays
`UNKNOWN` if the server ended, or lost its log, before it wrote the outcome.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeAlias, TypedDict
from urllib.parse import urlsplit

from fastapi import Depends, Header, HTTPException, Request

from rmq_core import RedisMessageQueueError, RedisSettings
from rmq_core.orchestrate import ALERTS, AlertLimits
from rmq_core.protocol import DISCIPLINES

UNKNOWN = "not known: the server has not recorded the outcome"
GIVEN_UP = "cancelled half-way: changes made before that remain"
log = logging.getLogger(__name__)


class AuditLog(Protocol):
    """Where the entries are written. Both methods may block, and an exception of theirs means that nothing was written.

    Fields of an entry: the server as `connection_id`, what the request asked for, and the `outcome`.
    """

    def write(self, event: str, user: str, fields: Mapping[str, Any]) -> Any:
        """Write an entry whose outcome is not known yet; return what `complete` needs to find it again."""

    def complete(self, entry: Any, event: str, user: str, fields: Mapping[str, Any]) -> None:
        """Write the outcome of an entry."""


@asynccontextmanager
async def audited(
    where: AuditLog, event: str, user: str, fields: Mapping[str, Any]
) -> AsyncIterator[Callable[[str], None]]:
    """Write an entry for the change that the block makes.

    The block passes the outcome to the function that it gets; if the block raises, the entry's outcome is the error.
    """
    outcome = UNKNOWN

    def done(what: str) -> None:
        nonlocal outcome
        outcome = f"done: {what}"

    entry = await asyncio.to_thread(where.write, event, user, {**fields, "outcome": UNKNOWN})
    try:
        yield done
    except BaseException as error:
        outcome = _failure(error)
        raise
    finally:
        completed = {**fields, "outcome": outcome}
        await asyncio.shield(asyncio.to_thread(_complete, where, entry, event, user, completed))


def _complete(where: AuditLog, entry: Any, event: str, user: str, fields: Mapping[str, Any]) -> None:
    try:
        where.complete(entry, event, user, fields)
    except Exception as error:  # the change is made, and the user must get its result
        log.warning("The audit log lacks the outcome of %s (%s): %s", event, type(error).__name__, fields)


def _failure(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return GIVEN_UP
    if isinstance(error, HTTPException):
        return f"failed: {error.detail}"
    # The error text of a database driver or a secrets backend may contain a password; our own Redis errors never do.
    text = str(error) if isinstance(error, RedisMessageQueueError | LookupError) else type(error).__name__
    return f"failed: {text}"


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


@lru_cache(maxsize=10_000)
def default_config(name: str, discipline: str) -> Any:
    """Return a config that gives up early, so that an answer about a server that hangs comes in time."""
    client = RedisSettings.from_url("redis://localhost").client()  # a queue needs one; it connects to nothing
    config = DISCIPLINES[discipline].load()(client, name).config
    return replace(config, retry_budget=RETRY_S) if hasattr(config, "retry_budget") else config


@dataclass(frozen=True)
class Host:
    """All that the console is given.

    holder: returns the work that an owner names, None for other owners. config: the settings of queues, where none are
    stored with them; to search for a deduplication key, `dedup_key` has to be that of the publishers.
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


HEADER = "X-RMQ-Request"


def user_of(request: Request) -> Any:
    """Return the user whom the host identified for this request."""
    return request.state.user


def _requires(right: Right) -> Callable[..., None]:
    def check(request: Request, connection_id: str) -> None:
        host, user = host_of(request), user_of(request)
        if not host.access.permitted(user, connection_id, right):
            raise HTTPException(403, host.words.refusal(right))
        # A user who may see messages may also see the server's address.
        request.state.sees_server = right != "numbers" or host.access.permitted(user, connection_id, "server")

    return check


def visible_error(request: Request, text: str) -> str:
    """Return the text of an error; without the right to see the server, what the host says in its place."""
    visible = getattr(request.state, "sees_server", True)  # routes without a server check no right, and name none
    return text if visible else host_of(request).words.refusal("server")


def is_foreign(request: Request) -> bool:
    """Return whether a browser says that a page of another origin made it send the request."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is None and origin is not None:
        return urlsplit(origin).netloc != request.headers.get("host")
    return site not in (None, "none", "same-origin")


def from_our_page(
    request: Request,
    x_rmq_request: Annotated[str | None, Header()] = None,
) -> None:
    """Refuse a change that another page, or an address that the user typed, may have made the browser send."""
    # A browser sends the login cookie with requests from foreign pages too. A foreign page cannot set a custom header
    # without a preflight request to the server, and the browser reports the origin of the request.
    foreign = is_foreign(request) or request.headers.get("sec-fetch-site") == "none"
    if foreign or x_rmq_request is None:
        raise HTTPException(403, f"{host_of(request).words.foreign} and with the header {HEADER}")


numbers = [Depends(_requires("numbers"))]
messages = [Depends(_requires("messages"))]
changes = [Depends(_requires("change")), Depends(from_our_page)]
"""Required by every route that changes something: the right, and a request from our own page."""
