"""`rmq`: a shell command that inspects queues, operates them and checks their server.

It only formats the results of the core and computes none itself. The exit code states the outcome (see `output`).
Output for programs goes to stdout, all other output to stderr. Tokens and credentials are never written.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

_PARTS = ("typer", "rich")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command with these arguments, or those of the process if None; always raise SystemExit at the end."""
    try:
        from rmq_cli.app import run  # needs the extra `cli`, which may be missing
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _PARTS:
            raise
        sys.exit("rmq: the command line needs Typer and Rich; install them with: pip install 'rmq[cli]'")
    sys.exit(run(arguments))
