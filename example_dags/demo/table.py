"""A plain-text table: the first column is left-aligned, figures right-aligned; columns fit their widest cell."""

from __future__ import annotations

from collections.abc import Sequence

Row = Sequence[str]


def table(rows: Sequence[Row]) -> str:
    """Return the table as text; the first row is the header, between two rules."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    header, *body = (_line(row, widths) for row in rows)
    rule = "─" * len(header)
    return "\n".join([rule, header, rule, *body, rule])


def _line(row: Row, widths: Sequence[int]) -> str:
    first, *figures = row
    cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(figures, widths[1:], strict=True))]
    return "   ".join(cells).rstrip()
