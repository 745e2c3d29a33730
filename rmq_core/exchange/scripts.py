"""Builds script calls; parameters are passed by the names that the script's header declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from rmq_core.exchange import Call
from rmq_core.lua import Parameter, Script, load


def script(name: str, keys: object = None, settings: Any = None, /, **given: Any) -> Call:
    """Return a call of a script. Parameters are passed by the names that the script's header declares.

    A key that is not passed is read from the attribute of `keys` with the same name, an argument from the field of
    `settings`, a NamedTuple. Optional parameters may be omitted from the end. A list parameter takes any sequence.
    Raises TypeError for a missing or unknown parameter and names it.
    """
    arrange = _ARRANGED.get((name, *given))
    if arrange is None:
        arrange = _ARRANGED[name, *given] = _arrange(load(name), keys, settings, given)
    return arrange(keys, settings, given)


_Arrange: TypeAlias = Callable[[object, object, Mapping[str, Any]], Call]
_ARRANGED: dict[tuple[str, ...], _Arrange] = {}


def _arrange(found: Script, keys: object, settings: Any, given: Mapping[str, Any]) -> _Arrange:
    """Build the function that puts the parameters in order, for all calls that pass the same names."""
    keys_of, args_of = found.own
    if unknown := given.keys() - {parameter.name for parameter in (*keys_of, *args_of)}:
        message = f"{found.name} has no parameter {', '.join(sorted(unknown))}"
        raise TypeError(message)
    attributes = {parameter.name for parameter in keys_of if isinstance(getattr(keys, parameter.name, None), bytes)}
    named = {name: f"keys.{name}" for name in attributes}
    told = {} if settings is None else {name: f"settings.{name}" for name in settings._fields}
    ordered = [
        "".join(f"{value}, " for value in _expressions(found, some, given, known))
        for some, known in ((keys_of, named), (args_of, told))
    ]
    # Generated as source code, as namedtuple does, for speed: it runs at every call.
    code = f"lambda keys, settings, given: Call(script, ({ordered[0]}), ({ordered[1]}))"
    arranged: _Arrange = eval(code, {"Call": Call, "script": found})  # noqa: S307  only names from our own headers
    return arranged


def _expressions(
    found: Script, parameters: Iterable[Parameter], given: Mapping[str, Any], known: Mapping[str, str]
) -> Iterable[str]:
    left_out = ""
    for parameter in parameters:
        name = parameter.name
        if name in given and left_out:
            message = f"{found.name}: {name!r} is passed, so {left_out!r} must be passed too"
            raise TypeError(message)
        if name in given:
            yield f"{'*' if parameter.is_list else ''}given[{name!r}]"
        elif parameter.is_optional:
            left_out = name
        elif name in known:
            yield known[name]
        else:
            message = f"{found.name} needs {name!r}"
            raise TypeError(message)
