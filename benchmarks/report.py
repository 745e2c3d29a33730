"""A document: a table of figures and targets, with the machine and versions used. It explains each missed target."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from benchmarks.figures import Figure, Findings, Table, Target

_FORMATS = {"": ".2f", "B": ".0f", "ms": ".1f", "/s": ".2f"}


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine and the versions on which the numbers were measured."""

    servers: Sequence[str]
    load_before: float = field(default_factory=lambda: os.getloadavg()[0])
    began: float = field(default_factory=time.time)

    def lines(self) -> Iterator[str]:
        yield f"- Servers: {', '.join(f'Redis {server}' for server in self.servers)}"
        packages = ", ".join(f"{name} {version(name)}" for name in ("redis", "hiredis"))
        yield f"- Clients: Python {platform.python_version()}, {packages}"
        yield f"- Machine: {_processor()}, {os.cpu_count()} cores, Linux {platform.release()}"
        taken_s = time.time() - self.began
        date = time.strftime("%Y-%m-%d", time.gmtime(self.began))
        load = f"load average {self.load_before:.1f} before, {os.getloadavg()[0]:.1f} after"
        yield f"- Run: {date}, {taken_s:.0f} s, {load} (the benchmark itself keeps both cores busy)"


def render(
    findings: Findings,
    targets: Mapping[str, Target],
    reasons: Mapping[str, str],
    machine: Machine,
    opening: str = "# Benchmark results",
) -> str:
    """Return the whole document; `opening` is its title and the description of the measurement."""
    parts = [
        opening,
        "\n".join(machine.lines()),
        _summary(findings.figures, targets),
        table(("figure", "value", "target", "met", "details"), list(_rows(findings.figures, targets))),
        *_explained(findings.figures, targets, reasons),
        *(_section(each) for each in findings.tables),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def verdict(figure: Figure, target: Target | None) -> str:
    """Return whether a figure reaches its target; for a miss, also the share of the target that it reaches."""
    if target is None:
        return ""
    value = figure.spread.median
    return "yes" if target.met(value) else f"**no**: {target.share(value):.2f} of the target"


def _rows(figures: Sequence[Figure], targets: Mapping[str, Target]) -> Iterator[Sequence[str]]:
    for figure in figures:
        target = targets.get(figure.name)
        yield (figure.name, _shown(figure), _aim(figure, target), verdict(figure, target), figure.context)
    measured = {figure.name for figure in figures}
    for name, target in targets.items():
        if name not in measured:
            yield (name, "not measured", str(target), "**no**", "")


def _summary(figures: Sequence[Figure], targets: Mapping[str, Target]) -> str:
    measured = {figure.name: figure.spread.median for figure in figures}
    met = sum(name in measured and target.met(measured[name]) for name, target in targets.items())
    return f"{met} of {len(targets)} targets are met."


def _explained(figures: Sequence[Figure], targets: Mapping[str, Target], reasons: Mapping[str, str]) -> Iterator[str]:
    """Yield a paragraph for each miss: the known reason, or a note that there is none."""
    missed = [f for f in figures if f.name in targets and not targets[f.name].met(f.spread.median)]
    if missed:
        yield "## Targets that are missed"
    for figure in missed:
        reason = reasons.get(figure.name, "not explained yet.")
        yield f"**{figure.name}** ({_shown(figure)} instead of {_aim(figure, targets[figure.name])}): {reason}"


def _shown(figure: Figure) -> str:
    spec, spread = _FORMATS[figure.unit], figure.spread
    value = f"{spread.median:{spec}} {figure.unit}".strip()
    if spread.low == spread.high:
        return value
    return f"{value} ({spread.low:{spec}} to {spread.high:{spec}})"


def _aim(figure: Figure, target: Target | None) -> str:
    return "" if target is None else f"{target} {figure.unit}".strip()


def _section(found: Table) -> str:
    return "\n\n".join(part for part in (f"## {found.title}", found.note, table(found.head, found.rows)) if part)


def _processor() -> str:
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return names[0].split(":", 1)[1].strip() if names else platform.machine()
