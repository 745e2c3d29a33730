"""Commands on dead letters: dlq list, reasons, redrive, edit, purge."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rmq_cli import records
from rmq_cli.opening import At, Count, Queue, Yes, argument, option
from rmq_cli.output import Exit, Watched, complain, confirm, counted, emit, here, note, preview, say, show, watched
from rmq_cli.search import Conditions, matching
from rmq_core.admin.verbs import check_conditions, conditional
from rmq_core.envelope.codec import Message, Payload
from rmq_core.envelope.matching import Match
from rmq_core.errors import ConfigurationError, PayloadError
from rmq_core.kernel.base import tools_of
from rmq_core.kernel.selecting import number_in
from rmq_core.reports import OnProgress

_Most = Annotated[int | None, option("--max", min=1, help="How many at most; all when left out.")]


def list_(queue: Queue, *, count: Count = 10, at: At) -> None:
    """List the newest dead letters and the reasons of their failures."""
    with at.queue(queue) as opened:
        found = opened.admin.dead_letters(count)
    if at.as_json:
        for message in found:
            emit(records.message_record(queue, message))
        return
    rows = map(records.message_row, found)
    show(records.MESSAGES, rows, f"{queue} has no dead letters", optional=records.OPTIONAL)


def reasons(queue: Queue, *, at: At) -> None:
    """Group the dead letters by the reasons of their last failures; # stands for numbers and ids.

    `--group` of the other commands takes one of them.
    """
    with at.queue(queue) as opened, watched("") as watch:
        found = opened.admin.dead_reasons(progress=watch.step)
    if at.as_json:
        for group in found:
            emit(records.reason_record(queue, group))
    else:
        show(records.REASONS, map(records.reason_row, found), f"{queue} has no dead letters")
    watch.end()


def redrive(queue: Queue, *, most: _Most = None, chosen: Conditions, at: At) -> None:
    """Make dead letters ready again with a fresh delivery budget, the oldest first: all, or those that options choose.

    Ctrl-C ends it between two steps; what was done so far stays done.
    """
    with at.queue(queue) as opened, watched("redriven") as watch:
        able = opened.admin
        if chosen:
            check_conditions(opened, "redrive")
            watch.done = able.redrive(most, where=chosen.where, progress=watch.step)
        else:
            watch.done = able.redrive(most, **_progress_of(opened, watch))
    _print_done(queue, "redriven", watch.done, counted(watch.done, "dead letter"), as_json=at.as_json)
    watch.end()


def purge(queue: Queue, *, chosen: Conditions, yes: Yes = False, at: At) -> None:
    """Delete dead letters of a queue: all, or those that the options choose; ask first, and say how many."""
    purge_of(queue, {"dead": chosen.where}, f" with {chosen}" if chosen else "", yes=yes, at=at)


def purge_of(queue: str, states: Mapping[str, Match | None], which: str, *, yes: bool, at: At) -> int:
    """Delete the messages in some states that meet the conditions of each; ask first, and say how many. Return that."""
    with at.queue(queue) as opened:
        if any(states.values()):
            check_conditions(opened, "purge")
        counts = dict(states)
        if "ready" in counts and counts["ready"] == counts.get("isolated", ()):
            del counts["isolated"]  # a purge of the ready ones takes them, too
        if not yes and (many := sum(_number(opened, state, where) for state, where in counts.items())):
            whose = f"of {queue} ({opened.discipline}) on {at.settings}"
            confirm(f"Delete {_counted(many, states)} {whose}{which}?")
        with watched("purged") as watch:
            for state, where in states.items():
                if not watch.stopped:
                    more = {"where": where, "progress": watch.step} if where else {}
                    watch.done += opened.admin.purge(state, **more)
    _print_done(queue, "purged", watch.done, _counted(watch.done, states), as_json=at.as_json)
    watch.end()
    return watch.done


def _counted(many: int, states: Collection[str]) -> str:
    (state, *more) = states
    return counted(many, "dead letter" if state == "dead" and not more else " or ".join([*states]) + " message")


def _number(queue: Any, state: str, where: Match | None) -> int:
    """Count the messages in a state that meet the conditions; end the command if it is stopped meanwhile."""
    parts = ("ready", "isolated") if state == "ready" else (state,)  # as `purge` takes it
    if where is None:
        stats = queue.stats()
        return sum(number_in(stats, part) for part in parts)
    with watched("found") as watch:
        for part in parts:
            if part in tools_of(queue).stored_states:
                for page in matching(queue, part, where, watch):
                    watch.done += len(page.messages)
    watch.end()
    return watch.done


def _progress_of(queue: Any, watch: Watched) -> dict[str, OnProgress]:
    return {"progress": watch.step} if conditional(queue, "redrive") else {}


def _print_done(queue: str, what: str, count: int, messages: str, *, as_json: bool) -> None:
    if as_json:
        emit({"queue": queue, what: count})
    else:
        say(f"{what} {messages} of {queue}")


_Id = Annotated[str, argument(help="Id of the dead letter.", metavar="ID")]
_Payload = Annotated[
    str | None,
    argument(
        help="The new payload: JSON if the present one is JSON, else a text. Without it and without headers, $EDITOR"
        " opens with the present payload.",
        metavar="[PAYLOAD]",
    ),
]
_Headers = Annotated[
    list[str] | None, option("--header", "-H", help="Set this header; may be repeated.", metavar="NAME=VALUE")
]
_Dropped = Annotated[
    list[str] | None, option("--drop-header", help="Remove this header; may be repeated.", metavar="NAME")
]


def edit(
    queue: Queue,
    message_id: _Id,
    payload: _Payload = None,
    *,
    header: _Headers = None,
    drop_header: _Dropped = None,
    yes: Yes = False,
    at: At,
) -> None:
    """Redrive a dead letter with another payload or other headers.

    Its id and history stay; its delivery budget is fresh.
    """
    with at.queue(queue) as opened:
        change = opened.admin.edit
        letter = _letter(opened, message_id)
        headers = _headers(letter, header or [], drop_header or [])
        new = _new_payload(letter, payload, ask=headers is None)
        if new is None and headers is None:
            note("nothing was changed")
            return
        if not yes:
            confirm(_question(queue, letter, new, headers))
        done = change(message_id, new, headers, by=here())
    if at.as_json:
        emit({"queue": queue, "id": message_id, "redriven": int(done)})
    elif done:
        say(f"redrove {message_id} of {queue}, edited")
    if not done:
        complain(f"{message_id} is no dead letter of {queue} any more")
        raise typer.Exit(Exit.FAILED)


def _letter(queue: Any, message_id: str) -> Message:
    with watched("dead letters") as watch:
        for page in matching(queue, "dead", Match(message_id=message_id), watch):
            if page.messages:
                return page.messages[0]
    raise ConfigurationError(f"{queue.name} has no dead letter {message_id!r}: `rmq dlq list QUEUE` shows them")


def _headers(letter: Message, given: list[str], dropped: list[str]) -> dict[str, str] | None:
    """Return the headers after the edit; None if none are to be changed."""
    if not given and not dropped:
        return None
    headers = {name: value for name, value in letter.headers.items() if name not in dropped}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise ConfigurationError(f"--header: write name=value, not {pair!r}")
        headers[name] = value
    return headers


def _new_payload(letter: Message, given: str | None, *, ask: bool) -> Payload | None:
    if given is not None:
        return _parsed(letter, given)
    if not ask:
        return None
    if not sys.stdin.isatty():
        raise ConfigurationError("say what to change: write the new PAYLOAD after the id, or --header, --drop-header")
    if letter.kind == "b":
        raise ConfigurationError("the payload is bytes, which cannot be edited here: use `queue.admin.edit` in Python")
    text = letter.raw.decode() if letter.kind == "s" else json.dumps(letter.payload, indent=2, ensure_ascii=False)
    edited = _in_editor(text, ".json" if letter.kind == "j" else ".txt")
    return None if edited == text else _parsed(letter, edited)


def _in_editor(text: str, suffix: str) -> str:
    """Let the user edit a text in $VISUAL or $EDITOR, and return it without a line end that the editor has added."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.NamedTemporaryFile("w+", suffix=suffix, encoding="utf-8") as file:  # only this user may read it
        file.write(text)
        file.flush()
        try:
            subprocess.run([*editor, file.name], check=True)
            edited = Path(file.name).read_text("utf-8")
        except (OSError, subprocess.CalledProcessError) as error:
            raise ConfigurationError(f"the editor {editor[0]!r} failed: {error}; nothing was changed") from None
    return edited if text.endswith("\n") else edited.removesuffix("\n")


def _parsed(letter: Message, text: str) -> Payload:
    if letter.kind != "j":
        return text
    try:
        value: Payload = json.loads(text)
    except ValueError as error:
        raise PayloadError(f"the payload of {letter.id} is JSON, and {text[:40]!r} is none: {error}") from None
    return value


def _question(queue: str, letter: Message, new: Payload | None, headers: dict[str, str] | None) -> str:
    parts = []
    if new is not None:
        parts.append(f"payload {_short(new)} instead of {_short(letter.payload)}")
    if headers is not None:
        parts.append(f"headers {_short(headers)} instead of {_short(dict(letter.headers))}")
    return f"Redrive {letter.id} of {queue} with {' and '.join(parts)}?"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value) if isinstance(value, bytes) else json.dumps(value)
    return preview(text, 200)
