"""`rmq`: inspecting at queues, working on them and checking their server from a shell.

It formats and computes nothing that the core knows. The exit code tells what happened (see `failures`); what is meant
for programs goes to stdout, everything else to stderr; tokens and credentials go nowhere.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

_PARTS = ("typer", "rich")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command, those of the process when None; ends with SystemExit."""
    try:
        from rmq_core.cli.app import run  # noqa: PLC0415  what it needs is an extra that may be missing
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _PARTS:
            raise
        sys.exit("rmq: the command line needs Typer and Rich; install them with: pip install 'rmq[cli]'")
    sys.exit(run(arguments))
