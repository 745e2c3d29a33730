"""A table of plain text: first column to the left, figures to the right, as wide as its widest cell."""

from __future__ import annotations

from collections.abc import Sequence

Row = Sequence[str]


def table(rows: Sequence[Row]) -> str:
    """The rows under a ruled header, which is the first of them."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    header, *body = (_line(row, widths) for row in rows)
    rule = "─" * len(header)
    return "\n".join([rule, header, rule, *body, rule])


def _line(row: Row, widths: Sequence[int]) -> str:
    first, *figures = row
    cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(figures, widths[1:], strict=True))]
    return "   ".join(cells).rstrip()
