"""Commands on what has happened: history, mark, journal export."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from rmq_cli.inspecting import spark
from rmq_cli.opening import At, Queue, option, time_given
from rmq_cli.output import ago, counted, emit, note, plain, say, show, shown
from rmq_core.errors import ConfigurationError
from rmq_core.observe.history import EVENTS, HistoryPoint, Mark, between, reach
from rmq_core.transfer.exporting import JournalExport, into_file, into_lines

_WIDEST = 60
_GAUGES = (
    "ready_max", "oldest_age_max", "wait_p50", "wait_p95", "wait_max", "processing_p50", "processing_p95",
    "processing_max",
)  # fmt: skip
_COLUMNS = ("measure", "in all", "most", "latest", "course")

_Minutes = Annotated[int | None, option("--minutes", "-m", min=1, max=1440, help="How far back, in minutes.")]
_Hours = Annotated[int | None, option("--hours", min=1, max=720, help="How far back, hour by hour.")]
_WHEN = "how long ago, such as 30m, or a time with its zone"
_From = Annotated[str | None, option("--from", help=f"Where to begin: {_WHEN}.", metavar="TIME")]
_Until = Annotated[str | None, option("--to", help=f"Where to end: {_WHEN}; now when left out.", metavar="TIME")]
_Rows = Annotated[bool, typer.Option("--rows", help="Show a row for each minute or hour in which something happened.")]


def history(
    queue: Queue,
    *,
    minutes: _Minutes = None,
    hours: _Hours = None,
    begin: _From = None,
    end: _Until = None,
    rows: _Rows = False,
    at: At,
) -> None:
    """Show what happened to the messages of a queue, minute by minute: the last hour unless an option says otherwise.

    With --json, a line for each minute or hour, oldest first, then a line for each mark.
    """
    now = datetime.now(UTC)
    first, last = _moment("--from", begin, now), _moment("--to", end, now)
    if first is not None:
        if minutes or hours:
            raise ConfigurationError("--from says how far back: leave --minutes and --hours out")
        minutes, hours = reach(now - first)
    with at.queue(queue) as opened:
        admin: Any = opened.admin
        found: list[HistoryPoint] = admin.history(minutes=minutes, hours=hours)
        points = between(found, first or found[0].at, last or now)
        if not points:
            raise ConfigurationError("--to must be later than the time at which the history begins")
        ends = points[-1].at + timedelta(seconds=points[-1].seconds)
        marks = [mark for mark in admin.marks() if points[0].at <= mark.at < ends]
    if at.as_json:
        for each in points:
            emit({"queue": queue, **each.record()})
        for mark in marks:
            emit({"queue": queue, "mark": mark.kind, "at": mark.at.isoformat(), "by": mark.by, "text": mark.text})
        return
    _show(queue, points, marks, rows=rows)


def _moment(option: str, text: str | None, now: datetime) -> datetime | None:
    """Return the time that an option gives, which may be how long ago it was. Raises ConfigurationError."""
    given = time_given(option, text, moments=True)
    if given is None:
        return None
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise ConfigurationError(f"{option}: say in which zone {text} is, such as {text}Z")
        return given
    try:
        return now - (given if isinstance(given, timedelta) else timedelta(seconds=given))
    except OverflowError:
        raise ConfigurationError(f"{option}: {text} is longer ago than any history") from None


def mark(queue: Queue, text: str, *, at: At) -> None:
    """Mark this moment in the history of a queue, for example `rmq mark orders "deployed 1.4"`."""
    with at.queue(queue) as opened:
        opened.admin.mark(text)
    if at.as_json:
        emit({"queue": queue, "mark": text})
    else:
        say(f"marked {queue}: {text}")


def _show(queue: str, points: Sequence[HistoryPoint], marks: Sequence[Mark], *, rows: bool) -> None:
    unit = "minute" if points[0].seconds == 60 else "hour"
    say(f"{queue}: {len(points)} {unit}s from {points[0].at:%Y-%m-%d %H:%M} UTC on, the newest on the right")
    records = [point.record() for point in points]
    if rows:
        names = [name for name in (*EVENTS, *_GAUGES) if any(record[name] for record in records)]
        busy = [record for record in records if any(record[name] for name in names)]
        times = [f"{datetime.fromisoformat(record['at']):%m-%d %H:%M}" for record in busy]
        lines = [(time, *(_value(name, record) for name in names)) for time, record in zip(times, busy, strict=True)]
        show(("at (UTC)", *(name.replace("_", " ") for name in names)), lines, "nothing happened")
    else:
        show(_COLUMNS, list(filter(None, (_row(name, records) for name in (*EVENTS, *_GAUGES)))), "nothing happened")
    if marks:
        show(("at (UTC)", "mark", "by", "text"), map(_mark_row, marks), "")


def _row(name: str, records: Sequence[dict[str, Any]]) -> tuple[object, ...] | None:
    """Return the row of a measure; None when nothing was counted, except for the four that every queue has."""
    values = [record[name] or 0 for record in records]
    if not any(values) and name not in {"published", "claimed", "acked"}:
        return None
    in_all, latest = f"{sum(values):,}" if name in EVENTS else "", records[-1][name]
    shown = None if latest is None else _shown(name, latest)  # a minute that has just begun may have no sample yet
    return (name, in_all, _shown(name, max(values)), shown, spark(_fitting(values)))


def _value(name: str, record: dict[str, Any]) -> str | None:
    return _shown(name, record[name]) if record[name] else None


def _shown(name: str, value: float) -> str:
    return f"{value:,}" if name in EVENTS or name == "ready_max" else _duration(value)


def _fitting(values: Sequence[float]) -> list[float]:
    """Return at most 60 values: the largest of each group of neighbours."""
    size = -(-len(values) // _WIDEST)
    return [max(values[lo : lo + size]) for lo in range(0, len(values), size)]


def _mark_row(mark: Mark) -> tuple[object, ...]:
    return (f"{mark.at:%Y-%m-%d %H:%M:%S}", mark.kind, Text(plain(mark.by)), mark.text)


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms" if seconds < 1 else f"{seconds:.1f} s" if seconds < 60 else ago(seconds) or ""


_To = Annotated[
    Path | None,
    option(
        "--to",
        help="The file: its name ends in .ndjson or .jsonl. Without it, the rows are written to stdout.",
        metavar="FILE",
    ),
]
_After = Annotated[
    str | None, option("--after", help="Only entries after this one: the last of the export before.", metavar="ENTRY")
]


def export(queue: Queue, *, to: _To = None, after: _After = None, at: At) -> None:
    """Write the journal of a queue, oldest entry first, and remove nothing; a line of JSON for each entry.

    Says at the end which entry was the last, for the --after of the next export.
    """
    opened_file = into_lines(sys.stdout.buffer) if to is None else into_file(to)
    with at.queue(queue) as opened:
        made = JournalExport(opened, after=after)
        with shown("exported") as line:
            made.write(opened_file, line.report)
        sys.stdout.buffer.flush()
    if at.as_json:
        emit({"queue": queue, "exported": made.rows, "last": made.last}, errors=to is None)
        return
    note(f"exported {counted(made.rows, 'row')} of the journal of {queue}" + _next(made))


def _next(made: JournalExport) -> str:
    if made.rows:
        return f"; the next export goes on with --after {made.last}"
    return ": it has no journal (set LeasedConfig(journal=...)), or nothing was added"
