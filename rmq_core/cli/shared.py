"""The options that all commands have may also stand before the command; what stands behind it goes first."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from rmq_core.cli.options import LOCAL, Discipline, Json, Url

_SPELLED = {"url": "--url", "discipline": "--discipline", "as_json": "--json"}


class Group(TyperGroup):
    """Commands that get the options which stood before them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, [*_given(ctx), *rest]


def _given(ctx: Any) -> list[str]:
    """What was written down, not what the environment says: the command asks that itself."""
    written = {name for name in _SPELLED if getattr(ctx.get_parameter_source(name), "name", "") == "COMMANDLINE"}
    return [
        word
        for name in sorted(written)
        for word in ([_SPELLED[name]] if name == "as_json" else [_SPELLED[name], ctx.params[name]])
    ]


def shared(*, url: Url = LOCAL, discipline: Discipline = None, as_json: Json = False) -> None:
    """Parse the options; the command that follows gets them."""
    del url, discipline, as_json
