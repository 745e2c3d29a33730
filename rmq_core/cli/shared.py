"""Accepts the options of all commands before the command too; an option after the command takes precedence."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rmq_core import __version__
from rmq_core.cli.options import LOCAL, Discipline, Json, Url

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


def shared(*, url: Url = LOCAL, discipline: Discipline = None, as_json: Json = False) -> None:
    """Parse the options before a command; `Group` passes them on to the command."""
    del url, discipline, as_json


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rmq {__version__}")
        raise typer.Exit


_Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version of RMQ and exit."),
]


def root(*, url: Url = LOCAL, discipline: Discipline = None, as_json: Json = False, version: _Version = False) -> None:
    """Parse the options before a command; the groups of commands have all of them except `--version`."""
    del url, discipline, as_json, version
