"""Warnings for whoever runs the queue."""

from __future__ import annotations

import contextlib
import warnings


def warn(text: str) -> None:
    """A RuntimeWarning that harms nobody: under `-W error` a message would otherwise be lost over it."""
    with contextlib.suppress(RuntimeWarning):
        warnings.warn(text, RuntimeWarning, stacklevel=3)
