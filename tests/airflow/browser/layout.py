"""Find faults in the layout of a view, measured in the browser: elements cut off, overlapping, or too small."""

from __future__ import annotations

from pathlib import Path

from tests.airflow.browser.screen import Screen

FINGER_PX = 40
SEARCH_PX = 200
HEADING_LINES = 4

MEASURE = Path(__file__).with_name("layout.js").read_text("utf-8")


def faults(screen: Screen, *, fingers: bool) -> list[str]:
    """Return the layout faults of the view or of the open dialog; with `fingers`, also targets too small to touch."""
    found = screen.run(MEASURE, FINGER_PX if fingers else 0, SEARCH_PX, HEADING_LINES)
    return [str(fault) for fault in found]
