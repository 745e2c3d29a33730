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

**A layout is how the waiting messages of a queue are stored.** In another layout than the first, a file of the
layout's folder takes the place of the script or include of its name. The keys and arguments that the headers of these
files declare come before those of the script. So one script decides for all layouts.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_ROOT = files("rmq_core")
LAYOUTS = {"": "", "grouped": "leased/grouped", "sharded": "leased/sharded"}
"""The layouts by name, with the folders of their files."""
_INCLUDE = re.compile(r"^-- include: ([\w/]+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n|^\s*\n", re.MULTILINE)
_SECTION = re.compile(r"^-- (KEYS|ARGV|Reply): ?")
_LOCALS = re.compile(r"^local (?:function )?([\w, ]+)", re.MULTILINE)
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
    arguments. of_layout: how many keys and arguments the layout adds at the beginning of `own`.
    """

    name: str
    source: bytes
    sha: bytes
    own: Parameters = Parameters()
    has_slot: bool = False
    of_layout: tuple[int, int] = (0, 0)


@cache
def load(name: str, layout: str = "") -> Script:
    """Return the script `<name>.lua` of `rmq_core`: prologue, includes and body, without comment lines."""
    splicing = _Splicing(layout)
    text = splicing.shadowed(name.partition("/")[2]) or _read(name)
    body = splicing.spliced(text, name.partition("/")[0])
    keys, args = (tuple(_parameters(name, section, text)) for section in ("KEYS", "ARGV"))
    more_keys, more_args = splicing.wanted("KEYS", keys), splicing.wanted("ARGV", args)
    has_slot = bool(keys) and keys[0].name == "slot"
    keys = (*keys[:has_slot], *more_keys, *keys[has_slot:])
    args = (*args[: 2 * has_slot], *more_args, *args[2 * has_slot :])
    if clash := {each.name for each in keys} & {each.name for each in args}:
        message = f"{name}.lua: {', '.join(clash)} would be a key and an argument"
        raise ValueError(message)
    own_locals = {word for found in _LOCALS.findall(body) for word in re.split(r"[, ]+", found)}
    if hidden := own_locals & {each.name for each in (*keys, *args)}:
        message = f"{name}.lua: a local, perhaps of an include, would hide the parameter {', '.join(hidden)}"
        raise ValueError(message)
    lines = ["local KEYS, ARGV = KEYS, ARGV\n"] if keys or args else []  # globals take longer to find than locals
    lines += [*_prologue("KEYS", keys), *_prologue("ARGV", args), body]
    source = _COMMENT.sub("", "".join(lines)).encode()
    own = Parameters(keys[1:], args[2:]) if has_slot else Parameters(keys, args)
    sha = hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()
    return Script(name, source, sha, own, has_slot, (len(more_keys), len(more_args)))


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


class _Splicing:
    """The includes of one script in one layout."""

    def __init__(self, layout: str) -> None:
        self._folder, self._done = LAYOUTS[layout], set[tuple[str, str]]()
        self._headers: list[str] = []

    def spliced(self, text: str, room: str) -> str:
        """Return the text with each include, and its own includes, inserted where it is first named."""

        def splice(found: re.Match[str]) -> str:
            where, included = self._included(room, found[1])
            if (where, found[1]) in self._done:
                return ""
            self._done.add((where, found[1]))
            return self.spliced(included, where)

        return _INCLUDE.sub(splice, text)

    def shadowed(self, name: str) -> str | None:
        """Return the text of the layout's own file of that name."""
        if not self._folder:
            return None
        try:
            text = _read(f"{self._folder}/{name}")
        except FileNotFoundError:
            return None
        self._headers.append(text)
        return text

    def wanted(self, section: str, own: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
        """Return the parameters that the layout's files declare and the script does not."""
        known = {parameter.name for parameter in own}
        found = itertools.chain.from_iterable(_parameters(self._folder, section, text) for text in self._headers)
        return tuple({each.name: each for each in found if each.name not in known}.values())

    def _included(self, room: str, name: str) -> tuple[str, str]:
        shadow = self.shadowed(name)
        if shadow is not None:
            return self._folder.partition("/")[0], shadow
        try:
            return room, _read(f"{room}/include/{name}")
        except FileNotFoundError:
            return "kernel", _read(f"kernel/include/{name}")


def _read(name: str) -> str:
    return _ROOT.joinpath(f"{name}.lua").read_text("utf-8")
