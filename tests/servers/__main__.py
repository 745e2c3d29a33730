"""Fetch the servers named on the command line, or all, start each once and print its version."""

from __future__ import annotations

import sys

from tests.servers import NAMES, parse_external, start_server
from tests.servers.matrix import version


def main() -> None:
    """Prepare servers, and fail when one is missing: a test run must not find this out halfway."""
    if parse_external():
        return
    for name in sys.argv[1:] or NAMES:
        server = start_server(name)
        server.stop()
        print(f"server {name}: version {version(name)}")


if __name__ == "__main__":
    main()
