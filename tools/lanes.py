"""Draw docs/diagrams/*.lanes, which show who gets what next: a lane for each group, from left to right the time.

A file has values, as `title: fair`: `set <setting>` of the queue, how many `workers` there are, `priority <message>`,
`expires <message>` in columns, `unit` of a column in seconds if time counts, `claim groups`, `publication`, and
`published: by events` if the messages do not all wait from the start.

After `---` come the lanes. In a lane, a digit or capital letter is the message that a worker claims in that column, `=`
where it still has it, `x` where it fails, `~` where it waits for its end, and `d` where it becomes a dead letter;
`.` is time that passes, and `…` at the end are more messages that wait. A lane without a name is one more row of the
group above. In a lane `name > …`, things happen to the queue: a message is accepted `+` or a duplicate `-`, the
publication has ended `!`, the queue pauses `p`, an operator resumes it `r`.

tests/core/leased/test_pictures.py makes the same calls, so a drawing that the queue does not follow fails there.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
WIDTH, LEFT, ROW, TOP = 440, 92, 30, 34
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #26304f } .title { font-weight: 600 } .small { font-size: 12px }
.card { fill: #f4f5fb } .lane { fill: #e3e6f5 } .waits { stroke: #8b93b8; stroke-width: 2; stroke-dasharray: 2 5 }
.bar { fill: #3f51b5 } .first { fill: #b0520a } .failed { fill: #b3261e } .on { fill: #fff; font-weight: 600 }
.dead { fill: none; stroke: #b3261e; stroke-width: 1.5; stroke-dasharray: 4 3 } .line { stroke: #26304f }
.good { fill: #1b6e35 } .bad { fill: #b3261e }
@media (prefers-color-scheme: dark) {
text { fill: #e4e7f5 } .card { fill: #23273a } .lane { fill: #30364f } .waits { stroke: #8b93b8 }
.bar { fill: #5c6bc0 } .on { fill: #fff } .dead { stroke: #ff8a80 } .line { stroke: #e4e7f5 }
.good { fill: #7bd88f } .bad { fill: #ff8a80 } }
"""
EVENTS = {"+": ("✓", "good"), "-": ("✕", "bad"), "!": ("⚑", "good"), "p": ("❚❚", "bad"), "r": ("▶", "good")}


@dataclass(frozen=True)
class Bar:
    """One message in one worker's hands from column `start` to before `end`; if `waited`, nobody claimed it."""

    group: str
    row: int
    message: str
    start: int
    end: int
    failed: bool
    waited: bool


@dataclass
class Picture:
    """What a file says. `settings` are those of the queue, `events` by column and name of the lane."""

    values: dict[str, str]
    groups: list[str] = field(default_factory=list)
    lanes: list[tuple[str, str, str]] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)

    @property
    def columns(self) -> int:
        """How many columns the widest lane has."""
        return max(len(cells.rstrip("…")) for _, _, cells in self.lanes)

    def more(self, group: str) -> bool:
        """Return whether messages of the group wait that nobody gets."""
        return any(cells.endswith("…") for name, _, cells in self.lanes if name == group)

    def named(self, prefix: str) -> dict[str, str]:
        """Return the values whose names are `prefix` and another word, by that word."""
        return {name.split()[1]: value for name, value in self.values.items() if name.startswith(prefix + " ")}


def read(path: Path) -> Picture:
    """Return the picture that a file describes."""
    head, _, body = path.read_text("utf-8").partition("---\n")
    lines = (line.partition(": ") for line in head.splitlines() if not line.startswith("#"))
    picture = Picture({name: value for name, _, value in lines})
    for line in body.splitlines():
        name, kind, cells = re.split(r" *([|>]) ?", line.rstrip(), maxsplit=1)
        name = name or picture.lanes[-1][0]
        if kind == "|" and name not in picture.groups:
            picture.groups.append(name)
        for found in re.finditer(r"[0-9A-Z](=*)(x?)(~*d)?", cells) if kind == "|" else ():
            start, end = found.span()
            bar = Bar(name, len(picture.lanes), found[0][0], start, end, bool(found[2]), bool(found[3]))
            picture.bars.append(bar)
        picture.lanes.append((name, kind, cells))
    return picture


def draw(picture: Picture) -> str:
    """Return the picture as SVG."""
    step = (WIDTH - LEFT - 12) / picture.columns
    height = TOP + ROW * len(picture.lanes) + 42
    title = escape(picture.values["title"])
    shown = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        f' role="img"><title>{title}</title><style>{STYLE}</style>',
        f'<rect class="card" width="{WIDTH}" height="{height}" rx="8"/>',
        f'<text class="title" x="12" y="22">{title}</text>',
    ]
    for row, (name, kind, cells) in enumerate(picture.lanes):
        y = TOP + ROW * row
        again = row > 0 and picture.lanes[row - 1][0] == name
        if kind == "|":
            top = y - 4 if again else y
            shown.append(
                f'<rect class="lane" x="{LEFT}" y="{top}" width="{WIDTH - LEFT - 8}" height="{y + 26 - top}"/>'
            )
        if not again:
            shown.append(f'<text x="12" y="{y + 18}">{escape(name)}</text>')
            shown += _waiting(picture, name, kind, y, step)
        if kind == ">":
            shown += [_event(LEFT + step * at, y, cell) for at, cell in enumerate(cells) if cell in EVENTS]
    shown += [_bar(bar, picture, step) for bar in picture.bars]
    y = TOP + ROW * len(picture.lanes) + 8
    shown.append(f'<path class="line" d="M{LEFT} {y}H{WIDTH - 10}m-5-4l5 4l-5 4" fill="none"/>')
    shown.append(f'<text class="small" x="12" y="{y + 4}">time</text>')
    shown.append(f'<text class="small" x="{LEFT}" y="{y + 24}">{escape(picture.values["legend"])}</text></svg>')
    return "\n".join(shown) + "\n"


def _waiting(picture: Picture, name: str, kind: str, y: float, step: float) -> list[str]:
    """Draw a dotted line as long as messages of the group wait."""
    claims = [bar.start for bar in picture.bars if bar.group == name and not bar.waited]
    until = LEFT + step * (picture.columns if picture.more(name) else max(claims, default=0))
    if kind == ">" or until == LEFT or "published" in picture.values:
        return []
    return [f'<line class="waits" x1="{LEFT + 4}" y1="{y + 13}" x2="{until - 2}" y2="{y + 13}"/>']


def _bar(bar: Bar, picture: Picture, step: float) -> str:
    x, y, width = LEFT + step * bar.start + 1, TOP + ROW * bar.row + 2, step * (bar.end - bar.start) - 2
    first = bar.message in picture.named("priority")
    kind = "dead" if bar.waited else "failed" if bar.failed else "first" if first else "bar"
    box = f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="22" rx="4"/>'
    on = "" if bar.waited else ' class="on"'
    end = (
        f'<text{on} x="{x + width - 6:.1f}" y="{y + 16}" text-anchor="end">✕</text>' if bar.failed or bar.waited else ""
    )
    at = x + 7 if bar.end - bar.start > 1 else x + width / 2 - 4
    return f'{box}<text{on} x="{at:.1f}" y="{y + 16}">{bar.message}</text>{end}'


def _event(x: float, y: float, cell: str) -> str:
    sign, kind = EVENTS[cell]
    return f'<text class="{kind}" x="{x + 1:.1f}" y="{y + 18}">{sign}</text>'


if __name__ == "__main__":
    for path in sorted((ROOT / "docs/diagrams").glob("*.lanes")):
        (ROOT / "docs/images" / f"{path.stem}.svg").write_text(draw(read(path)), "utf-8")
        print(path.stem, file=sys.stderr)
