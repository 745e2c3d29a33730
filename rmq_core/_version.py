"""The version of this distribution; pyproject.toml has it, too."""

from __future__ import annotations

__version__ = "0.2.0"
