"""The real servers of the tests: found or downloaded, started on free ports, and stopped with the tests."""

from __future__ import annotations

from tests.servers.cluster import Cluster, name_on
from tests.servers.matrix import CLUSTERS, EMBEDDED, NAMES, parse_external
from tests.servers.process import External, Server, find_server, start_server
from tests.servers.sentinel import Trio

__all__ = [
    "CLUSTERS",
    "EMBEDDED",
    "NAMES",
    "Cluster",
    "External",
    "Server",
    "Trio",
    "find_server",
    "name_on",
    "parse_external",
    "start_server",
]
