"""The name of the machine that a part of Airflow takes itself to be on: each instance is alone on its own."""

from __future__ import annotations

import os

INSTANCE = "RMQ_TESTS_INSTANCE"


def hostname() -> str:
    """Return the name of the instance, for `[core] hostname_callable`."""
    return os.environ[INSTANCE]
