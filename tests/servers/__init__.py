"""The real servers the tests run against: found or fetched, started on free ports, gone when the tests are."""

from __future__ import annotations

from tests.servers.matrix import NAMES, parse_external
from tests.servers.process import External, Server, find_server, start_server

__all__ = ["NAMES", "External", "Server", "find_server", "parse_external", "start_server"]
