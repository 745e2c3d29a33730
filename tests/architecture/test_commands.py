"""Every `rmq <command>` that a document or the code names exists, and so do the options it is shown with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from rmq_cli.app import app
from rmq_core.admin.verbs import offered

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "SUPPORT.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
PAGES += sorted((ROOT / "benchmarks").glob("*.md"))
SOURCES = [path for package in sorted(ROOT.glob("*rmq*")) for path in sorted(package.rglob("*.py"))]
SOURCES += sorted((ROOT / "example_dags").rglob("*.py"))
INLINE = re.compile(r"`rmq\s+([^`]+)`")
FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"^(?:\$ )?rmq (.+)$", re.MULTILINE)
END = re.compile(r"\s(?:--|\||>|&&|#)\s")
RMQ: Any = typer.main.get_command(app)


def named(text: str) -> Iterator[str]:
    """Yield the words after each `rmq` in inline code or a line of a code block, up to `|`, `>`, `&&`, `#` or `--`."""
    blocks = "\n".join(FENCED.findall(text))
    for words in (*INLINE.findall(FENCED.sub("", text)), *LINE.findall(blocks)):
        yield END.split(f"{words} ")[0].strip()


def fault(words: str) -> str | None:
    """Return an error text for the first unknown command or option; None when all exist."""
    command, known = RMQ, {"--help", "--install-completion"}
    for word in words.split():
        known |= {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        if word.startswith("-"):
            if word.partition("=")[0] not in known:
                return f"`rmq {words}`: no option {word}"
        elif hasattr(command, "commands") and "://" not in word:
            if word not in command.commands:
                return f"`rmq {words}`: no command {word}; there are {', '.join(sorted(command.commands))}"
            command = command.commands[word]
    return None


def faults(path: Path) -> list[str]:
    return [found for words in named(path.read_text("utf-8")) if (found := fault(words))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_command_that_a_document_names_exists_with_its_options(path: Path) -> None:
    assert faults(path) == []


def test_every_command_that_the_code_names_exists_with_its_options() -> None:
    assert [found for path in SOURCES for found in faults(path)] == []


def test_the_guide_lists_every_verb_and_what_its_json_has() -> None:
    guide = (ROOT / "docs/how-to/command-line.md").read_text("utf-8")
    for verb in offered():
        assert f"\n| `{verb.word} QUEUE" in guide, verb.word
        assert re.search(rf"^\| `.*{verb.word}`.* \| `queue` .*`", guide, re.MULTILINE), verb.word


def test_commands_are_found_in_sentences_and_in_blocks() -> None:
    text = "See `rmq dead`, `rmq\npeek --state` \n```sh\nrmq --url redis://h/0 stats q | head --lines\n```\n"
    assert list(named(text)) == ["dead", "peek --state", "--url redis://h/0 stats q"]
    assert len([each for page in PAGES for each in named(page.read_text("utf-8"))]) > 20


@pytest.mark.parametrize("words", ["dead", "peek q --status", "dlq show q", "--uri redis://h/0 stats"])
def test_a_command_that_does_not_exist_is_found(words: str) -> None:
    assert fault(words)


@pytest.mark.parametrize("words", ["dlq", "dlq redrive q --max 3", "--url redis://h/0 stats q", "release QUEUE LEASE"])
def test_a_command_that_exists_passes(words: str) -> None:
    assert fault(words) is None
