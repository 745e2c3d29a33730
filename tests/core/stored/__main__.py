"""Write the golden files of new scenes: `python -m tests.core.stored redis://localhost:6379/15` (flushes it).

A file that exists is never written: it states what a format is, for ever. A scene of another format gets another file.
"""

from __future__ import annotations

import sys

import redis

from tests.core.stored.scenes import SCENES, path_of, played


def main(url: str) -> None:
    """Play the scenes that have no golden file yet."""
    with redis.Redis.from_url(url) as client:
        for name in SCENES:
            if not path_of(name).exists():
                client.flushdb()
                path_of(name).write_text(played(name, url, client), "utf-8")
                print("wrote", path_of(name))


if __name__ == "__main__":
    main(sys.argv[1])
