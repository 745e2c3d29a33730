"""Registers the commands under their names, and turns the errors of a command into its exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rmq_cli import consume, dead, doctor, history, inspecting, operating, publish, running, search, serve, transfers
from rmq_cli.opening import At, command
from rmq_cli.output import Exit, escape_what_is_missing, report
from rmq_core import __version__
from rmq_core.admin.verbs import VERBS, offered
from rmq_core.errors import RedisMessageQueueError

_SPELLED = {"url": "--url", "discipline": "--discipline", "as_json": "--json"}


class Group(TyperGroup):
    """A group of commands that passes the options written before a command on to the command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, [*_given(ctx), *rest]


def _given(ctx: Any) -> list[str]:
    """Return the options of the command line, not those of the environment, which the command reads itself."""
    written = {name for name in _SPELLED if getattr(ctx.get_parameter_source(name), "name", "") == "COMMANDLINE"}
    return [
        word
        for name in sorted(written)
        for word in ([_SPELLED[name]] if name == "as_json" else [_SPELLED[name], ctx.params[name]])
    ]


def shared(*, at: At) -> None:
    """Parse the options before a command; `Group` passes them on to the command."""
    del at


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rmq {__version__}")
        raise typer.Exit


_Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version of RMQ and exit."),
]


def root(*, at: At, version: _Version = False) -> None:
    """Parse the options before a command; the groups of commands have all of them except `--version`."""
    del at, version


# Rich tracebacks would print local variables, and with them tokens and payloads.
app = typer.Typer(
    name="rmq",
    cls=Group,
    callback=command(root),
    help="Queues on Redis: publish, consume, inspect, repair. The exit code is 0 when all went well, 1 when something"
    " failed, 2 for a wrong parameter, 3 when Redis does not answer, 4 when there is no room.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
queues = typer.Typer(cls=Group, callback=command(shared), help="All queues of a server.", no_args_is_help=True)
letters = typer.Typer(
    cls=Group, callback=command(shared), help="Dead letters: messages that failed too often.", no_args_is_help=True
)
journals = typer.Typer(
    cls=Group,
    callback=command(shared),
    help="Journals: who published, claimed and settled which messages.",
    no_args_is_help=True,
)


def add_all(group: typer.Typer, *functions: Callable[..., None]) -> None:
    """Add functions as commands, each under its own name."""
    for function in functions:
        group.command(function.__name__.rstrip("_"))(command(function))


add_all(app, publish.publish, consume.consume, running.run, inspecting.stats, inspecting.peek, inspecting.leases)
add_all(app, inspecting.groups, inspecting.publication, inspecting.publications, inspecting.shards)
add_all(app, inspecting.clients)
for verb in offered():
    operating.add_to(app, verb)
add_all(
    app,
    search.search,
    transfers.export,
    transfers.import_,
    transfers.purge,
    operating.reap,
    doctor.doctor,
    inspecting.top,
)
add_all(app, serve.serve, serve.token, history.history, history.mark, inspecting.why)
add_all(queues, inspecting.list_)
operating.add_to(queues, VERBS["unregister"])
add_all(letters, dead.list_, dead.reasons, dead.edit, dead.redrive, dead.purge)
add_all(journals, history.export)
app.add_typer(queues, name="queues")
app.add_typer(letters, name="dlq")
app.add_typer(journals, name="journal")


def run(arguments: Sequence[str] | None) -> int:
    """Run a command and return its exit code."""
    escape_what_is_missing()
    try:
        app(args=arguments, prog_name="rmq")
    except RedisMessageQueueError as error:
        return report(error)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else Exit.FAILED
    return Exit.DONE
