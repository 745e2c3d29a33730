"""The promises of the queue protocol, each written once for every discipline, concurrency model and server.

A promise that needs a capability is kept by the disciplines that declare it, and refused, visibly, by the others.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    *(
        f"{__name__}.{name}"
        for name in ("publishing", "claiming", "settling", "failing", "looking", "working", "promises")
    )
)
