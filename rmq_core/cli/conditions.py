"""The options that choose messages: by text, header, reason, group of reasons and id."""

from __future__ import annotations

from typing import Annotated

import typer

from rmq_core.envelope.matching import Match

Text = Annotated[
    str | None,
    typer.Option("--text", help="Only messages whose payload, as it is stored, has this text.", show_default=False),
]
Header = Annotated[
    str | None,
    typer.Option(
        "--header", "-H", help="Only messages with this header.", show_default=False, metavar="NAME or NAME=VALUE"
    ),
]
Reason = Annotated[
    str | None,
    typer.Option(
        "--reason",
        help="Only messages that failed for this reason the last time; * stands for any text, and numbers and ids do"
        " not matter.",
        show_default=False,
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        help="Only messages whose last failure is in this group, exactly as `rmq dlq reasons` shows it.",
        show_default=False,
    ),
]
Ids = Annotated[
    list[str] | None,
    typer.Option("--id", help="Only the message with this id; may be repeated.", show_default=False, metavar="ID"),
]


class Conditions:
    """What the options of a command choose. `ids` are alternatives; everything else has to be met together."""

    def __init__(
        self,
        text: str | None = None,
        header: str | None = None,
        reason: str | None = None,
        group: str | None = None,
        ids: list[str] | None = None,
    ) -> None:
        self.ids = ids or []
        given = {"text": text, "header": header, "reason": reason, "group": group}
        self._given = {name: value for name, value in given.items() if value}

    def __bool__(self) -> bool:
        return bool(self.ids or self._given)

    @property
    def matches(self) -> list[Match]:
        """The conditions, one Match for each id."""
        if self.ids:
            return [Match(message_id=each, **self._given) for each in dict.fromkeys(self.ids)]
        return [Match(**self._given)] if self._given else []

    @property
    def only_ids(self) -> bool:
        """Whether ids are all that was given."""
        return bool(self.ids) and not self._given

    def __str__(self) -> str:
        parts = [f"{name} {value!r}" for name, value in self._given.items()]
        return " and ".join([*parts, *([f"id {', '.join(self.ids)}"] if self.ids else [])])
