"""`rmq serve`: the console, an API, metrics and probes in one process. `rmq token`: tokens for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from rmq_cli.opening import LOCAL, Url, argument, option, settings_of
from rmq_cli.output import note
from rmq_core.errors import ConfigurationError

# the extra `serve` may be missing, and `rmq --help` must not load it

_PARTS = ("fastapi", "uvicorn", "prometheus_client", "starlette", "pydantic")

_Host = Annotated[
    str, typer.Option("--host", help="The address to listen on; other machines reach all but 127.0.0.1 and ::1.")
]
_Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 for a free one.")]
_Tokens = Annotated[Path | None, option("--tokens", help="File with the hashes of tokens, from `rmq token`.")]
_UserHeader = Annotated[
    str,
    typer.Option(
        "--user-header", help="Header in which a proxy names the user, for example X-Forwarded-User.", metavar="NAME"
    ),
]
_ChangeUsers = Annotated[
    list[str] | None, option("--change-users", help="A user of --user-header who may change; may be repeated.")
]
_Proxy = Annotated[
    list[str] | None,
    option(
        "--proxy",
        help="Address or network of a proxy whose headers are believed; may be repeated. For --user-header, 127.0.0.1"
        " and ::1 when none is given.",
        metavar="ADDRESS",
    ),
]
_AllowChanges = Annotated[bool, typer.Option("--allow-changes", help="Let users with the role change queues.")]
_Audit = Annotated[Path | None, option("--audit", help="File for the audit log of changes; stderr by default.")]
_Link = Annotated[
    list[str] | None,
    option(
        "--link",
        help="airflow=ADDRESS, dagster=ADDRESS or spark=ADDRESS: links who holds leases and who published messages to"
        " their pages; may be repeated. For spark, ADDRESS is the history server, or has {application} in it.",
    ),
]
_Role = Annotated[str, argument(help="numbers, view or change.", metavar="ROLE")]
_Name = Annotated[str, argument(help="Who gets the token; the audit log shows it.", metavar="NAME")]
_File = Annotated[Path | None, option("--tokens", help="File to which the token's line is added.")]


def serve(
    *,
    url: Url = LOCAL,
    host: _Host = "127.0.0.1",
    port: _Port = 8484,
    tokens: _Tokens = None,
    user_header: _UserHeader = "",
    change_users: _ChangeUsers = None,
    proxy: _Proxy = None,
    allow_changes: _AllowChanges = False,
    audit: _Audit = None,
    link: _Link = None,
) -> None:
    """Serve the console, its API, metrics and probes until Ctrl-C."""
    try:
        from rmq_console.serve.app import ServeOptions, listening
        from rmq_console.serve.app import serve as run
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _PARTS:
            raise
        raise ConfigurationError("`rmq serve` needs an extra; install it with: pip install 'rmq[serve]'") from missing
    options = ServeOptions(
        redis=settings_of(url),
        host=host,
        tokens=tokens,
        user_header=user_header,
        change_users=change_users or (),
        proxies=proxy or (),
        allow_changes=allow_changes,
        audit=audit,
        links=link or (),
    )
    listener = listening(host, port)
    shown = f"[{host}]" if ":" in host else host
    place = options.redis.url_without_credentials.partition("?")[0]
    state = "changes are allowed" if allow_changes else "read-only"
    note(f"http://{shown}:{listener.getsockname()[1]}/ shows {place} ({state}); Ctrl-C ends it")
    run(options, listener)


def token(role: _Role, name: _Name, *, tokens: _File = None) -> None:
    """Make a token for `rmq serve`: print it, and add its hash to the file, or print the line for the file."""
    from rmq_console.serve.access import make

    made, line = make(role, name)
    typer.echo(made)
    if tokens is None:
        note("add this line to the file that `rmq serve --tokens` names:")
        note(line)
        return
    try:
        with os.fdopen(os.open(tokens, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "rb+") as file:
            before = file.read()
            file.write((b"\n" if before and not before.endswith(b"\n") else b"") + f"{line}\n".encode())
    except OSError as error:
        raise ConfigurationError(f"--tokens: {tokens} cannot be written: {error}") from error
    note(f"{name} has the role {role}; {tokens} has its hash. The token is shown only this once.")
