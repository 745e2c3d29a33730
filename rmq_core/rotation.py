"""Rotation: the config that `RotationQueue` takes."""

from __future__ import annotations

from rmq_core.discipline.rotation.config import RotationConfig

__all__ = ["RotationConfig"]
