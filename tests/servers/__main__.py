"""Fetch the servers named on the command line, or all, start each once and print its version."""

from __future__ import annotations

import sys

from tests.servers import parse_external, prometheus, start_server
from tests.servers.matrix import PACKAGES, WHEELS, prepare


def main() -> None:
    """Prepare servers, and fail when one is missing: a test run must not find this out halfway."""
    if parse_external():
        return
    for name in sys.argv[1:] or (*WHEELS, *PACKAGES):
        try:
            found = prepare(name)
        except RuntimeError as error:
            sys.exit(f"server {name}: {error}")
        if found is None:
            print(f"server {name}: left out, because no suite of Debian has it any more")
            continue
        start_server(name).stop()
        print(f"server {name}: version {found}")
    if not sys.argv[1:]:
        print(f"prometheus: version {prometheus.version()}")


if __name__ == "__main__":
    main()
