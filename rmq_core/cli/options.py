"""The parameters that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

LOCAL = "redis://localhost:6379/0"

Queue = Annotated[str, typer.Argument(help="Name of the queue.", show_default=False, metavar="QUEUE")]
Queues = Annotated[
    list[str] | None,
    typer.Argument(help="Names of queues; all when none is named.", show_default=False, metavar="[QUEUE]..."),
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
    typer.Option(
        "--discipline",
        "-d",
        help="leased, reliable, streams, rotation or jobs; by default the one that the queue is registered with.",
        show_default=False,
        metavar="NAME",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="A setting of the discipline, for example max_deliveries=3; may be repeated.",
        show_default=False,
        metavar="NAME=VALUE",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON: one object a line.")]
Count = Annotated[int, typer.Option("--count", "-n", min=1, help="How many at most.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
LeaseSeconds = Annotated[
    float | None,
    typer.Option(
        "--lease",
        min=0.001,
        help="Seconds that a message is leased; the lease is extended while its command or handler runs.",
        show_default=False,
    ),
]
RetryAfter = Annotated[
    float | None,
    typer.Option(
        "--retry-after",
        min=0,
        help="Seconds before a failed message is ready again.",
        show_default="10, if the discipline can delay",
    ),
]
