from __future__ import annotations

import re
from pathlib import Path

import pytest

from rmq_core.exchange import loading

FOLDER = Path(loading.__file__).parents[1]
SCRIPTS = sorted(path for path in FOLDER.rglob("*.lua") if path.parent.name not in {"include", "grouped", "sharded"})
INCLUDES = sorted([*FOLDER.glob("*/include/*.lua"), *FOLDER.glob("leased/*ed/*.lua")])
# TIME and PUBLISH take no key.
KEYLESS = {"TIME", "PUBLISH"}
CALL = re.compile(r"""redis\.p?call\(\s*(['"])(\w+)\1\s*(?:,\s*([^,)]*))?""")


def key_first(text: str) -> str:
    """Return the text without the words that some commands have before their key."""
    text = re.sub(r"('(?:MEMORY|XGROUP|XINFO)'),\s*'\w+',", r"\1,", text)
    return re.sub(r"('XREAD(?:GROUP)?'),[^)]*?'STREAMS',", r"\1,", text)


def names(path: Path) -> str:
    return path.relative_to(FOLDER).with_suffix("").as_posix()


def source(path: Path) -> str:
    """Return a script as it is sent, in all layouts."""
    layouts = loading.LAYOUTS if path.parent.name == "leased" else [""]
    return "\n".join(dict.fromkeys(loading.load(names(path), each).source.decode() for each in layouts))


def test_scripts_are_found() -> None:
    assert SCRIPTS
    assert INCLUDES


@pytest.mark.parametrize("path", SCRIPTS, ids=names)
def test_a_header_states_purpose_keys_arguments_and_reply(path: Path) -> None:
    sections = loading.header(path.read_text("utf-8"))
    assert set(sections) == {"purpose", "KEYS", "ARGV", "Reply"}
    assert all(text.strip() for text in sections.values())


@pytest.mark.parametrize("path", SCRIPTS, ids=names)
def test_every_parameter_is_used_under_its_own_name(path: Path) -> None:
    script = loading.load(names(path))
    body = "\n".join(line for line in source(path).splitlines() if not re.search(r"\b(?:KEYS|ARGV)\b", line))
    own = [parameter.name for parameter in (*script.own.keys, *script.own.args)]
    assert [name for name in own if not re.search(rf"\b{name}\b", body)] == []
    # A local of the same name would shadow it in everything below.
    made = re.findall(r"^local (?:function )?([\w, ]+)", body, re.MULTILINE)
    assert {name.strip() for line in made for name in line.split(",")}.isdisjoint(own)


@pytest.mark.parametrize("path", SCRIPTS + INCLUDES, ids=names)
def test_no_script_refers_to_keys_or_arguments_by_position(path: Path) -> None:
    code = re.sub(r"--.*", "", path.read_text("utf-8"))
    assert re.findall(r"\b(?:KEYS|ARGV)\b", code) == []


@pytest.mark.parametrize("path", SCRIPTS + INCLUDES, ids=names)
def test_every_key_a_script_touches_comes_from_its_caller(path: Path) -> None:
    # A key that a script makes up breaks Redis Cluster and key-scoped ACLs.
    text = key_first(path.read_text("utf-8"))
    calls = [(command, key) for _, command, key in CALL.findall(text) if command not in KEYLESS]
    made_up = [call for call in calls if not call[1] or call[1][0] in "'\"" or ".." in call[1]]
    assert made_up == []


@pytest.mark.parametrize("path", SCRIPTS, ids=names)
def test_a_script_neither_scans_the_keyspace_nor_loops_without_bound(path: Path) -> None:
    lua = source(path)
    assert {command for _, command, _ in CALL.findall(lua)}.isdisjoint({"KEYS", "SCAN", "RANDOMKEY", "FLUSHDB"})
    assert not re.search(r"\bwhile\s+true\b|\bos\.|\bmath\.random", lua)


def test_every_include_is_used() -> None:
    included = re.findall(
        r"^-- include: ([\w/]+)$", "\n".join(p.read_text("utf-8") for p in SCRIPTS + INCLUDES), re.MULTILINE
    )
    assert {path.stem for path in INCLUDES} == set(included)
