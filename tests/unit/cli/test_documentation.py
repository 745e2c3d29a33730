from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.models import OptionInfo

from rmq_core.cli.app import app, letters, queues
from rmq_core.cli.failures import Exit
from rmq_core.cli.records import message_record
from rmq_core.envelope.codec import message_of

GUIDE = (Path(__file__).parents[3] / "docs/how-to/command-line.md").read_text("utf-8")
TABLE = GUIDE.partition("## Commands")[2].partition("## ")[0]
ROWS = {line.split("`")[1]: line for line in TABLE.splitlines() if line.startswith("| `")}
SHARED = {"--url", "--json", "--discipline"}
LACKING = {"queues list": {"--discipline"}, "serve": {"--discipline", "--json"}, "token": SHARED}


def commands() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Return every command under the words that run it."""
    for prefix, group in (("", app), ("queues ", queues), ("dlq ", letters)):
        for command in group.registered_commands:
            assert command.callback is not None
            yield prefix + (command.name or command.callback.__name__), command.callback


def options(callback: Callable[..., Any]) -> set[str]:
    hints = inspect.get_annotations(callback, eval_str=True).values()
    declared = [each for hint in hints for each in get_args(hint) if isinstance(each, OptionInfo)]
    # Typer keeps the first of an option's names where the default of one without annotation stands.
    names = [name for option in declared for name in (option.default, *(option.param_decls or ()))]
    return {name for name in names if isinstance(name, str) and name.startswith("--")}


@pytest.mark.parametrize(("name", "callback"), list(commands()), ids=[name for name, _ in commands()])
def test_the_guide_names_every_command_with_exactly_its_options(name: str, callback: Callable[..., Any]) -> None:
    beginnings = tuple(f"{name} {argument}" for argument in ("QUEUE", "[", "ROLE"))
    (row,) = [line for words, line in ROWS.items() if words == name or words.startswith(beginnings)]
    assert set(re.findall(r"`(--[a-z-]+)`", row)) == options(callback) - SHARED
    assert options(callback) >= SHARED - LACKING.get(name, set())


def test_the_guide_names_what_a_message_has_in_json() -> None:
    (row,) = [line for line in GUIDE.splitlines() if line.startswith("| `peek`, `consume`, `dlq list` |")]
    record = message_record("q", message_of(b"0 1500 0 id-1 s0 text"))
    assert record.keys() - set(re.findall(r"`(\w+)`", row.split("|")[2])) == set()


def test_the_guide_names_every_exit_code() -> None:
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", GUIDE, re.MULTILINE)}
    assert documented == {*map(int, Exit), 130}


def test_the_pictures_of_the_guide_exist() -> None:
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", GUIDE)
    assert pictures
    assert all((Path(__file__).parents[3] / "docs/how-to" / picture).is_file() for picture in pictures)
