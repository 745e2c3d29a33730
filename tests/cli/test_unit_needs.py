from __future__ import annotations

import re
from pathlib import Path

import pytest

import rmq_core
from rmq_cli.doctor_checks import commands_of, needed
from rmq_core.protocol import DISCIPLINES

CORE = Path(rmq_core.__file__).parent
PLAIN = re.compile(r"""\b(?:Command|Listen)\(\(\s*b?["']([A-Z]+)["'](?:,\s*b?["'](CREATE|USAGE)["'])?""")


def names(discipline: str) -> set[str]:
    return {*needed(discipline, "orders").commands}


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_plain_commands_of_a_disciplines_operations_are_in_its_required_commands(discipline: str) -> None:
    sources = [path.read_text("utf-8") for path in (CORE / discipline).glob("*.py")]
    assert sources
    sent = {"|".join(filter(None, found)) for source in sources for found in PLAIN.findall(source)}
    assert sent <= names(discipline)


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_commands_of_a_disciplines_scripts_are_in_its_required_commands(discipline: str) -> None:
    assert {"EVALSHA", "EVAL"} < names(discipline)
    assert len(names(discipline)) > 5


def test_every_script_names_its_commands_literally() -> None:
    for path in CORE.rglob("*.lua"):
        source = re.sub(r"--.*", "", path.read_text("utf-8"))
        calls = len(re.findall(r"redis\.p?call\(", source))
        written = len(re.findall(r"""redis\.p?call\(\s*['"][A-Z]+['"]""", source))
        chosen = len(re.findall(r"""redis\.call\(\s*from ==""", source))
        assert calls == written + chosen, path


def test_a_subcommand_is_named_with_its_command() -> None:
    assert commands_of("redis.call('XGROUP', 'CREATE', k) redis.pcall(\"SET\", 'NX')") == {"XGROUP|CREATE", "SET"}


def test_keys_are_those_of_the_queue_and_of_the_registry() -> None:
    keys = needed("rotation", "orders").keys
    assert keys == (
        ("~rmq:rotation:{orders}:*", "rmq:rotation:{orders}:doctor"),
        ("~orders", "orders"),
        ("~rmq:queues", "rmq:queues"),
        ("~rmq:queues:*", "rmq:queues:rotation"),
    )


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_each_command_has_the_arguments_with_which_the_doctor_asks_about_it(discipline: str) -> None:
    assert {*needed(discipline, "orders").examples} == names(discipline)


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_the_documentation_lists_the_rules_of_each_discipline(discipline: str) -> None:
    page = (CORE.parent / "docs" / "reference" / "connections.md").read_text("utf-8")
    written = page.partition(f"\n`{discipline}`:\n\n```text\n")[2].partition("\n```")[0]
    rules = needed(discipline, "orders").rules
    assert written.split() == rules.split(), f"write {rules}"
