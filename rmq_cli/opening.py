"""The options that commands share; connects to the server of a URL, and opens queues by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import update_wrapper
from inspect import Parameter, Signature, signature
from math import isfinite
from typing import Annotated, Any, NamedTuple, TypeVar

import typer

from rmq_core.connection.clients import sync_client
from rmq_core.connection.settings import RedisSettings
from rmq_core.errors import ConfigurationError, QueueUnavailable, RedisMessageQueueError
from rmq_core.exchange import Command, Exchange
from rmq_core.kernel.keys import QUEUES, queues_of
from rmq_core.kernel.registry import named_in
from rmq_core.orchestrate.handover import SECRETS
from rmq_core.policy import of_text
from rmq_core.protocol import DEFAULT, DISCIPLINES, WorkQueue, open_queue

LOCAL = "redis://localhost:6379/0"


def option(*names: str, **details: Any) -> Any:
    """Return an option that has no default, and so shows none; the help of older versions of Typer would show None."""
    return typer.Option(*names, **{"show_default": False, **details})


def argument(**details: Any) -> Any:
    """The same as `option`, for an argument."""
    return typer.Argument(show_default=False, **details)


def names_like(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a queue, for a shell; nothing if Redis does not answer at once."""
    url = ctx.params.get("url") or os.environ.get("RMQ_URL") or LOCAL
    with suppress(RedisMessageQueueError), connected(url) as server:
        return sorted({each.name for each in server.registered() if each.name.startswith(incomplete)})
    return []


Queue = Annotated[str, argument(help="Name of the queue.", metavar="QUEUE", autocompletion=names_like)]
Queues = Annotated[
    list[str] | None,
    argument(
        help="Names of queues, or patterns such as 'orders-*'; all when none is named.",
        metavar="[QUEUE]...",
        autocompletion=names_like,
    ),
]
Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="RMQ_URL",
        help="URL of Redis. Put credentials into RMQ_URL, or into RMQ_USERNAME and RMQ_PASSWORD, and not on the"
        " command line, which all users of the machine can list.",
        metavar="URL",
    ),
]
Discipline = Annotated[
    str | None,
    option(
        "--discipline",
        "-d",
        help="leased, reliable, streams, rotation or jobs; by default the one that the queue is registered with.",
        metavar="NAME",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON: one object a line.")]
Count = Annotated[int, typer.Option("--count", "-n", min=1, help="How many at most.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
LeaseSeconds = Annotated[
    float | None,
    option(
        "--lease",
        min=0.001,
        help="Seconds that a message is leased; the lease is extended while its command or handler runs.",
    ),
]
RetryAfter = Annotated[
    float | None,
    typer.Option(
        "--retry-after",
        min=0,
        help="Seconds before a failed message is ready again.",
        show_default="the backoff stored with the queue, else 10, if the discipline can delay",
    ),
]


R = TypeVar("R")
_PATIENCE_S = 2.0


class Options:
    """Base of the dataclasses that hold options of several commands, such as where Redis is; see `command`."""


def time_given(option: str, text: str | None, *, moments: bool = False) -> Any:
    """Return the value of an option: seconds or a duration, with `moments` also a point in time; None without one."""
    if text is None or isinstance(given := of_text(text), timedelta):
        return None if text is None else given
    for read in (float, datetime.fromisoformat) if moments else (float,):
        with suppress(ValueError):
            if read is not float or isfinite(float(text)):
                return read(text)
    also = ", or 2026-05-01T12:00+02:00" if moments else ""
    raise ConfigurationError(f"{option}: write seconds, or a duration as 10m{also}, not {text!r}")


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function with a parameter for each field of its `Options`, because Typer knows only single options."""
    parameters = signature(function, eval_str=True).parameters.values()
    together = {each.name: each.annotation for each in parameters if _is_options(each.annotation)}
    fields = {name: signature(kind, eval_str=True).parameters for name, kind in together.items()}
    shown = [
        each.replace(kind=Parameter.KEYWORD_ONLY)
        for known in parameters
        for each in (fields[known.name].values() if known.name in fields else (known,))
    ]

    def run(**given: Any) -> None:
        for name, kind in together.items():
            given[name] = kind(**{field: given.pop(field) for field in fields[name]})
        function(**given)

    return presented(update_wrapper(run, function), shown)


def _is_options(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Options)


def presented(run: Callable[..., None], shown: Sequence[Parameter]) -> Callable[..., None]:
    """Return a function that Typer takes for one with these parameters."""
    run.__signature__ = Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in shown}
    return run


class Registered(NamedTuple):
    """A queue in the registry, which records each queue on first use."""

    name: str
    discipline: str


class Server:
    """A connection to a server; `connected` sends PING before anything else."""

    def __init__(self, settings: RedisSettings, client: Any) -> None:
        from rmq_core.exchange.public import sync_driver  # loads redis-py, which `--help` must not

        self.settings, self.client = settings, client
        # A queue retries for 30 s; a user at a prompt should not wait that long for an error.
        self._driver = sync_driver(client, b"rmq:", _PATIENCE_S)

    def ask(self, exchange: Exchange[R]) -> R:
        """Run an exchange; stop retrying after 2 s without a reply."""
        return self._driver.run(exchange)

    def registered(self) -> list[Registered]:
        """Return all queues, sorted by name. A queue registered under several disciplines appears several times."""
        return self.ask(_registered())

    def discipline_of(self, name: str) -> str | None:
        """Return the discipline of a queue, None if it is not registered. Raises ConfigurationError for several."""
        try:
            found = [queue.discipline for queue in self.registered() if queue.name == name]
        except QueueUnavailable as error:  # on a cluster, the node that serves the queue may answer
            raise QueueUnavailable(f"{error} --discipline opens a queue without the list of queues") from error
        if len(found) > 1:
            raise ConfigurationError(f"queue {name!r} is {' and '.join(found)}: choose one with --discipline")
        return found[0] if found else None

    def similar(self, name: str) -> str:
        """Return the registered names that resemble this one, as text for "did you mean"; empty if none do."""
        return " or ".join(map(repr, get_close_matches(name, {each.name for each in self.registered()})))

    @contextmanager
    def queue(self, name: str, discipline: str | None, *, new: bool = False) -> Iterator[WorkQueue]:
        """Open the queue of a name. It must be registered unless `discipline` is given or it may be `new`."""
        known = discipline or self.discipline_of(name) or (DEFAULT if new else None)
        if known is None:
            meant = f": did you mean {or_else}?" if (or_else := self.similar(name)) else ";"
            raise ConfigurationError(
                f"queue {name!r} is not registered here{meant} `rmq queues list` shows those that are, and --discipline"
                " opens one that has not been used yet"
            )
        with closing(open_queue(self.client, name, known)) as opened:
            yield opened

    def close(self) -> None:
        """Close the connections."""
        self._driver.close()
        self.client.close()


def settings_of(url: str) -> RedisSettings:
    """Return the settings of a URL; RMQ_USERNAME, RMQ_PASSWORD etc. may hold credentials."""
    given = {name: os.environ.get(f"RMQ_{name.upper()}") for name in SECRETS}
    return RedisSettings.from_url(url, **{name: value for name, value in given.items() if value})


@contextmanager
def connected(url: str) -> Iterator[Server]:
    """Connect to the server of a URL. Raises QueueUnavailable."""
    settings = settings_of(url)
    with closing(Server(settings, sync_client(settings)[0])) as server:
        server.ask(_ping())
        yield server


@dataclass(frozen=True)
class At(Options):
    """Where a command works, and whether it answers in JSON."""

    url: Url = LOCAL
    discipline: Discipline = None
    as_json: Json = False

    @property
    def settings(self) -> RedisSettings:
        """The settings of the URL."""
        return settings_of(self.url)

    @contextmanager
    def queue(self, name: str, *, new: bool = False) -> Iterator[WorkQueue]:
        """Connect, and open a queue as `Server.queue` does."""
        with connected(self.url) as server, server.queue(name, self.discipline, new=new) as opened:
            yield opened


def _ping() -> Exchange[None]:
    yield Command(("PING",))


def _registered() -> Exchange[list[Registered]]:
    """Read the registry's sets: one for each discipline, and one for all queues."""
    replies = []
    for key in (*map(queues_of, DISCIPLINES), QUEUES):
        replies.append((yield Command(("SMEMBERS", key))))  # noqa: PERF401  a comprehension cannot yield
    return sorted(map(Registered._make, named_in(replies)))
