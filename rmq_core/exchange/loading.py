"""Loads scripts. One file is one atomic operation, and its header is its signature.

    -- Does something.
    -- KEYS: slot  ready  lease  done?, for a lease whose id the caller chose
    -- ARGV: seq  slot_ttl_ms  token  max:number, or 0  messages...
    -- Reply: 'done <count>' or 'lost'.

Two or more spaces separate parameters. The text after a comma describes a parameter; it continues on lines indented by
nine spaces or more. `?`: optional, `:number`: converted to a number, `...`: any number of values, passed as a table.
The loader writes a prologue that assigns each parameter to a local of its name, so no body counts positions;
`rmq_core.exchange.scripts` passes the values by the same names.

A script is beside the operations that call it. `-- include: name` is replaced by that file of the `include` beside the
script, else of `kernel/include`, after the files that it includes itself. Each file is inserted once, at its first
mention. Code before an include can return before the included functions are defined.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_ROOT = files("rmq_core")
_INCLUDE = re.compile(r"^-- include: ([\w/]+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n|^\s*\n", re.MULTILINE)
_SECTION = re.compile(r"^-- (KEYS|ARGV|Reply): ?")
_GOES_ON = "--" + 9 * " "
_ON_STACK = 7000  # so many values certainly fit on Lua's stack, where `unpack` puts them
_PARAMETER = re.compile(r"([a-z]\w*)(:number)?(\?|\.\.\.)?$")


class Parameter(NamedTuple):
    """A key or an argument, as the header of its script declares it."""

    name: str
    is_number: bool = False
    is_optional: bool = False
    is_list: bool = False


class Parameters(NamedTuple):
    """The keys and arguments of a script."""

    keys: tuple[Parameter, ...] = ()
    args: tuple[Parameter, ...] = ()


class Script(NamedTuple):
    """A script as it is sent to the server, and the SHA1 by which the server identifies it.

    own: the parameters that a caller passes. With `has_slot`, a driver adds the call slot before them: a key and two
    arguments.
    """

    name: str
    source: bytes
    sha: bytes
    own: Parameters = Parameters()
    has_slot: bool = False


@cache
def load(name: str) -> Script:
    """Return the script `<name>.lua` of `rmq_core`: prologue, includes and body, without comment lines."""
    text = _read(name)
    keys, args = (tuple(_parameters(name, section, text)) for section in ("KEYS", "ARGV"))
    lines = ["local KEYS, ARGV = KEYS, ARGV\n"] if keys or args else []  # globals take longer to find than locals
    lines += [*_prologue("KEYS", keys), *_prologue("ARGV", args), _spliced(text, name.partition("/")[0], set())]
    source = _COMMENT.sub("", "".join(lines)).encode()
    has_slot = bool(keys) and keys[0].name == "slot"
    own = Parameters(keys[1:], args[2:]) if has_slot else Parameters(keys, args)
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode(), own, has_slot)


def names(*beginnings: str) -> list[str]:
    """Return the names of the scripts that begin so, such as `leased/claim`; without beginnings, of all scripts."""
    rooms = (place for place in _ROOT.iterdir() if place.is_dir())
    found = (f"{room.name}/{file.name[:-4]}" for room in rooms for file in room.iterdir() if file.name.endswith(".lua"))
    return sorted(name for name in found if name.startswith(beginnings or ("",)))


def header(text: str) -> dict[str, str]:
    """Return the header comment of a script by section: "purpose", which comes first, "KEYS", "ARGV" and "Reply"."""
    sections, section = {"purpose": ""}, "purpose"
    for line in text.splitlines():
        if not line.startswith("--") or _INCLUDE.match(f"{line}\n"):
            break
        if found := _SECTION.match(line):
            section = found[1]
            sections[section] = ""
        sections[section] += " " if line.startswith(_GOES_ON) else "  "
        sections[section] += _SECTION.sub("", line).removeprefix("--").strip()
    return sections


def _parameters(script: str, section: str, text: str) -> Iterator[Parameter]:
    words = re.split(r"\s{2,}", header(text).get(section, "").strip())
    names = [word.partition(",")[0] for word in words if word and word != "none"]
    for at, name in enumerate(names):
        found = _PARAMETER.match(name)
        if not found or names.count(name) > 1 or (found[3] == "..." and at < len(names) - 1):
            message = f"{script}.lua, {section}: {name!r} is malformed, repeated, or a list that is not last"
            raise ValueError(message)
        yield Parameter(found[1], bool(found[2]), found[3] == "?", found[3] == "...")


def _prologue(array: str, parameters: tuple[Parameter, ...]) -> Iterator[str]:
    """Yield the Lua code that assigns parameters to locals of their names."""
    if parameters:
        values = (_value(array, parameter, at) for at, parameter in enumerate(parameters, 1))
        yield f"local {', '.join(parameter.name for parameter in parameters)} = {', '.join(values)}\n"
        last, before = parameters[-1], len(parameters) - 1
        if last.is_list:
            one_by_one = f"for i = {before + 1}, #{array} do {last.name}[i - {before}] = {array}[i] end"
            yield f"if not {last.name} then {last.name} = {{}} {one_by_one} end\n"


def _value(array: str, parameter: Parameter, at: int) -> str:
    if parameter.is_list:
        return f"#{array} < {_ON_STACK} and {{unpack({array}, {at})}}"
    value = f"{array}[{at}]"
    return f"tonumber({value})" if parameter.is_number else value


def _spliced(text: str, room: str, done: set[tuple[str, str]]) -> str:
    """Return the text with each include, and its own includes, inserted where it is first named."""

    def splice(found: re.Match[str]) -> str:
        where, included = _included(room, found[1])
        if (where, found[1]) in done:
            return ""
        done.add((where, found[1]))
        return _spliced(included, where, done)

    return _INCLUDE.sub(splice, text)


def _included(room: str, name: str) -> tuple[str, str]:
    try:
        return room, _read(f"{room}/include/{name}")
    except FileNotFoundError:
        return "kernel", _read(f"kernel/include/{name}")


def _read(name: str) -> str:
    return _ROOT.joinpath(f"{name}.lua").read_text("utf-8")
