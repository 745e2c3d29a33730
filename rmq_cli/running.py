"""`rmq run`: passes messages to a Python function until it is stopped."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import typer

from rmq_cli.consume import pause_after_failure
from rmq_cli.doctor_checks import paused
from rmq_cli.opening import At, LeaseSeconds, RetryAfter, argument, names_like, option
from rmq_cli.output import Exit, complain, emit, here, note
from rmq_core.errors import ConfigurationError
from rmq_core.protocol import open_async_queue
from rmq_core.reports import RunReport
from rmq_core.running import is_awaited

_Handler = Annotated[
    str,
    argument(
        help="The function, such as tasks:handle; also looked for in the current directory.", metavar="MODULE:HANDLER"
    ),
]
_Queue = Annotated[str, option("--queue", "-q", help="Name of the queue.", metavar="QUEUE", autocompletion=names_like)]
_MaxMessages = Annotated[
    int | None,
    option("--max-messages", min=1, help="Pass batches of at most this many messages; without it, single messages."),
]
_Concurrency = Annotated[
    int, typer.Option("--concurrency", "-c", min=1, help="How many threads, or tasks of an `async def`, work at once.")
]
_Wait = Annotated[
    float, typer.Option("--wait", min=0, help="With --until-empty: seconds to wait for each message before stopping.")
]
_UntilEmpty = Annotated[bool, typer.Option("--until-empty", help="Stop when no message is ready.")]


_Alive = Annotated[
    Path | None,
    option("--alive", help="A file whose time is set before each claim, for a probe of a container.", metavar="FILE"),
]


def run(
    handler: _Handler,
    *,
    queue: _Queue,
    max_messages: _MaxMessages = None,
    concurrency: _Concurrency = 1,
    wait: _Wait = 0,
    until_empty: _UntilEmpty = False,
    lease: LeaseSeconds = None,
    retry_after: RetryAfter = None,
    alive: _Alive = None,
    at: At,
) -> None:
    """Pass messages to a Python function: acked when it returns, nacked when it raises.

    Ends with --until-empty, or at the first Ctrl-C or SIGTERM once the present messages are done; a second signal
    releases them. With --until-empty, the exit code is 1 when a message failed or the queue is paused.
    """
    function = _load(handler)
    _show_log()
    with at.queue(queue) as opened:
        if not until_empty and (why := paused(opened)):
            complain(why)
        options: dict[str, Any] = {
            "max_messages": max_messages,
            "concurrency": concurrency,
            "lease": lease,
            "wait": wait,
            "until_empty": until_empty,
            "retry_after": pause_after_failure(opened, retry_after),
            "owner": here(),
            "alive": alive,
        }
        if is_awaited(function):
            report = _run_tasks(at.settings, opened, function, options)
        else:
            report = opened.run(function, **options)
        why = paused(opened) if until_empty else None
    if at.as_json:
        emit({"queue": queue, "discipline": opened.discipline, **report._asdict()})
    else:
        note(str(report))
    if why:
        complain(why)
    if why or (until_empty and (report.failed or report.lost)):
        raise typer.Exit(Exit.FAILED)


def _run_tasks(redis: Any, opened: Any, function: Callable[..., Any], options: dict[str, Any]) -> RunReport:
    """Run a coroutine function on the asyncio queue of the same name and settings."""
    import asyncio

    async def work() -> RunReport:
        queue = open_async_queue(redis, opened.name, opened.discipline, opened.config)
        try:
            return await queue.run(function, **options)
        finally:
            await queue.close()

    return asyncio.run(work())


def _load(target: str) -> Callable[..., Any]:
    """Import a function. Raises ConfigurationError if there is none; an error of the module itself propagates."""
    name, _, path = target.partition(":")
    if not all(part.isidentifier() for part in [*name.split("."), *path.split(".")]):
        raise ConfigurationError(f"handler must be MODULE:FUNCTION, such as tasks:handle, not {target!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = import_module(name)
    except ModuleNotFoundError as missing:
        if not f"{name}.".startswith(f"{missing.name}."):
            raise  # of a module that the user's module imports
        raise ConfigurationError(
            f"handler: there is no module {missing.name!r}, neither in {here} nor installed"
        ) from missing
    try:
        function: Callable[..., Any] = attrgetter(path)(found)
    except AttributeError as missing:
        raise ConfigurationError(f"handler: the module {name!r} has no {path!r}") from missing
    return function


def _show_log() -> None:
    """Show what RMQ logs, on stderr, unless the user's module has set up logging."""
    if not logging.getLogger().handlers:
        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
        logging.getLogger("rmq").setLevel(logging.INFO)
