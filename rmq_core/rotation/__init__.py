"""Rotation: the config that `RotationQueue` takes."""

from __future__ import annotations

from rmq_core.rotation.state import RotationConfig

__all__ = ["RotationConfig"]
