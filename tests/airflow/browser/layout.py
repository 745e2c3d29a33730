"""What is wrong with how a view is laid out, measured in the browser: nothing is cut off, overlaps, or is too small."""

from __future__ import annotations

from pathlib import Path

from tests.airflow.browser.screen import Screen

FINGER_PX = 40
SEARCH_PX = 200
HEADING_LINES = 4

MEASURE = Path(__file__).with_name("layout.js").read_text("utf-8")


def faults(screen: Screen, *, fingers: bool) -> list[str]:
    """What is wrong with the view, or with the dialog that is open; with `fingers` also what they would miss."""
    found = screen.run(MEASURE, FINGER_PX if fingers else 0, SEARCH_PX, HEADING_LINES)
    return [str(fault) for fault in found]
