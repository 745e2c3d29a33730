"""Asks for confirmation before an action that cannot be undone."""

from __future__ import annotations

import sys

import typer

from rmq_core.cli.output import plain
from rmq_core.errors import ConfigurationError


def confirm(question: str) -> None:
    """Return after a yes; end the command after a no. Raises ConfigurationError if stdin is no terminal."""
    if not sys.stdin.isatty():
        raise ConfigurationError(f"{question} stdin is no terminal, so nobody can confirm: add --yes")
    typer.confirm(plain(question), abort=True, err=True)
