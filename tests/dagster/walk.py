"""`walk.py PROJECT` runs the `dg` and `rmq` commands of its standard input, one a line, until one fails.

In one process, because most of the time that a command takes is imports. Neither pyspark nor Airflow can be imported,
as where only rmq[dagster] is installed.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ABSENT = {"pyspark", "airflow"}


class Absence:
    """An import finder that finds no module of packages that must be absent."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def dg(words: list[str]) -> Any:
    from dagster_dg_cli.cli import create_dg_cli

    return create_dg_cli().main(words, prog_name="dg", standalone_mode=False)


def rmq(words: list[str]) -> Any:
    from rmq_cli import main

    return main(words)


PROGRAMS: dict[str, Callable[[list[str]], Any]] = {"dg": dg, "rmq": rmq}


def exit_code(words: list[str]) -> Any:
    """Treat None as 0."""
    try:
        return PROGRAMS[words[0]](words[1:])
    except SystemExit as end:
        return end.code


if __name__ == "__main__":
    sys.meta_path.insert(0, Absence())  # type: ignore[arg-type]
    os.chdir(Path(sys.argv[1]))
    for command in sys.stdin.read().splitlines():
        print(f"$ {command}", flush=True)
        if code := exit_code(shlex.split(command)):
            sys.exit(f"{command} ended with {code}")
