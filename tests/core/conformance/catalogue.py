"""All promises, and the page of the docs that lists them: `python -m tests.core.conformance.catalogue` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rmq_core.protocol import DISCIPLINES
from tests.core.conformance import claiming, failing, looking, publishing, settling, working  # noqa: F401  their promises are registered by importing them
from tests.core.conformance.promises import EVERY, PROMISES, rows
from tests.core.conformance.subject import capabilities_of, declares

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "conformance.md"
OPENING = """# Conformance

This page lists what each discipline can do through the queue protocol. An empty cell means that the discipline refuses
the call with `Unsupported` before it sends anything, or that it lacks the property. One test suite verifies each
promise below, blocking and with asyncio, on every server and cluster; `make conformance` prints the results. Do not
edit this page: `python -m tests.core.conformance.catalogue` generates it.
"""


def page() -> Iterator[str]:
    """Return the lines of `PAGE`: what each discipline supports, and its meaning."""
    disciplines = {name: capabilities_of(name) for name in DISCIPLINES}
    yield OPENING
    yield f"| capability | {' | '.join(disciplines)} |"
    yield f"|---|{'---|' * len(disciplines)}"
    for row in rows():
        able = (row == EVERY or declares(declared, row) for declared in disciplines.values())
        yield f"| {row} | {' | '.join('✓' if can else '' for can in able)} |"
    yield f"| order | {' | '.join(declared.order for declared in disciplines.values())} |"
    yield ""
    yield "## The promises\n"
    for row in rows():
        yield f"- **{row}**"
        yield from (f"  - {promise.sentence}" for promise in PROMISES if promise.capability == row)


if __name__ == "__main__":
    PAGE.write_text("\n".join(page()) + "\n", "utf-8")
