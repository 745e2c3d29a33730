"""An operator who changes how messages wait, again and again: `python -m tests.faults.regrouper <sync|async> <url>`."""

from __future__ import annotations

import asyncio
import random
import sys
from typing import Any

from rmq_core import LeasedQueue
from rmq_core.asyncio import LeasedQueue as AsyncLeasedQueue

CHANGES: list[dict[str, Any]] = [
    {"reset": ["groups", "rate", "group_rate"]},
    {"groups": "fair", "rate": None, "group_rate": None},
    {"groups": "fair", "rate": "500/1s burst 30", "group_rate": None},
    {"groups": "exclusive", "rate": None, "group_rate": "200/1s burst 9"},
    {"groups": "exclusive", "rate": None, "group_rate": None},
    {"groups": "concurrent 2", "rate": None, "group_rate": None},
]


def regroup(url: str) -> None:
    with LeasedQueue(url, "q") as queue:
        while True:
            queue.admin.configure(**random.choice(CHANGES))
            print("changed", flush=True)


async def regroup_async(url: str) -> None:
    async with AsyncLeasedQueue(url, "q") as queue:
        while True:
            await queue.admin.configure(**random.choice(CHANGES))
            print("changed", flush=True)


def main(flavour: str, url: str) -> None:
    """Change the policy until killed."""
    if flavour == "sync":
        regroup(url)
    else:
        asyncio.run(regroup_async(url))


if __name__ == "__main__":
    main(*sys.argv[1:])
