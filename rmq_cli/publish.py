"""`rmq publish`: publishes payloads from the command line, a file or stdin."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from rmq_cli import records
from rmq_cli.opening import At, Queue, Yes, argument, connected, option, time_given
from rmq_cli.output import confirm, counted, emit, say
from rmq_core.envelope.codec import Payload
from rmq_core.errors import ConfigurationError, PayloadError

_Payloads = Annotated[
    list[str] | None,
    argument(help="Payloads; read from stdin, one a line, when none is given.", metavar="[PAYLOAD]..."),
]
_File = Annotated[Path | None, option("--file", "-f", help="Read payloads from a file, one a line.")]
_JsonPayload = Annotated[bool, typer.Option("--json-payload", "-j", help="Payloads are JSON.")]
_Delay = Annotated[float | None, option("--delay", min=0, help="Seconds before the messages become ready.")]
_DedupKey = Annotated[str | None, option("--dedup-key", help="Skip the payload if this key was published already.")]
_Headers = Annotated[
    list[str] | None, option("--header", "-H", help="A header; may be repeated.", metavar="NAME=VALUE")
]
_Group = Annotated[str | None, option("--group", help="The group of the messages, in a queue that has groups.")]
_Priority = Annotated[
    int | None, option("--priority", min=0, max=9, help="9 comes first, in a queue that has groups without limit.")
]
_Expires = Annotated[
    str | None,
    option(
        "--expires",
        help="Until when they may be claimed, in a queue that has groups: seconds, 10m, 1h, or a time with its zone.",
        metavar="TIME",
    ),
]
_Publication = Annotated[
    str | None,
    option("--publication", help="What the messages are a part of: `rmq publication` tells when all of that is done."),
]


def publish(
    queue: Queue,
    payload: _Payloads = None,
    *,
    file: _File = None,
    json_payload: _JsonPayload = False,
    delay: _Delay = None,
    dedup_key: _DedupKey = None,
    header: _Headers = None,
    group: _Group = None,
    priority: _Priority = None,
    publication: _Publication = None,
    expires: _Expires = None,
    yes: Yes = False,
    at: At,
) -> None:
    """Add messages to a queue. A new queue is created, with the discipline leased unless --discipline is given.

    In a terminal it asks first if another queue has nearly the same name.
    """
    texts = _texts(payload or (), file)
    payloads: Iterable[Payload] = map(_parsed, texts) if json_payload else texts
    key_of = _key(dedup_key, payload or ())
    with connected(at.url) as server, server.queue(queue, at.discipline, new=True) as opened:
        kind = opened.discipline
        if not yes and sys.stdin.isatty() and not server.discipline_of(queue) and (meant := server.similar(queue)):
            confirm(f"{queue!r} is a new queue; did you mean {meant}? Make it nevertheless?")
        report = opened.publish_many(
            payloads, dedup_key=key_of, delay=delay, headers=_headers(header or ()), group=group, priority=priority,
            publication=publication, expires=time_given("--expires", expires, moments=True),
        )  # fmt: skip
    if at.as_json:
        emit(records.report_record(queue, kind, report))
        return
    besides = [counted(report.duplicates, "duplicate")] if report.duplicates else []
    besides += [f"{report.replaced:,} in the place of earlier ones"] if report.replaced else []
    besides += [f"{report.dropped:,} dropped"] if report.dropped else []
    say(", ".join([f"published {report.accepted:,} to {queue} ({kind})", *besides]))


def _texts(given: Sequence[str], file: Path | None) -> Iterable[str]:
    if given and file:
        raise ConfigurationError("payloads come from the command line or from --file, not from both")
    if given:
        return given
    if file is None:
        if sys.stdin.isatty():
            raise ConfigurationError("no payload: write it after the queue, name a --file, or pipe lines in")
        return _lines(sys.stdin.buffer, "stdin")
    return _file_lines(file)


def _file_lines(file: Path) -> Iterator[str]:
    try:
        with file.open("rb") as lines:
            yield from _lines(lines, str(file))
    except OSError as error:
        raise ConfigurationError(f"--file {file}: {error.strerror}") from error


def _lines(lines: BinaryIO, where: str) -> Iterator[str]:
    """Yield the lines that are not empty."""
    for number, line in enumerate(lines, 1):
        try:
            text = line.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise PayloadError(f"line {number} of {where} is not UTF-8") from None
        if text:
            yield text


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise PayloadError(f"--json-payload: {text[:40]!r} is not JSON: {error}") from None


def _key(dedup_key: str | None, given: Sequence[str]) -> Callable[[Any], str] | None:
    if dedup_key is None:
        return None
    if len(given) != 1:
        raise ConfigurationError("--dedup-key is the key of one payload; for many, `rmq configure` dedup=true")
    return lambda _: dedup_key


def _headers(pairs: Sequence[str]) -> dict[str, str] | None:
    split = [pair.partition("=") for pair in pairs]
    for name, equals, _ in split:
        if not (name and equals):
            raise ConfigurationError(f"--header: write name=value, not {name!r}")
    return {name: value for name, _, value in split} or None
