"""Faults: processes are killed, servers fail, replies are lost."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in ("crew", "holders", "load", "patience", "picture")))
