"""The processor cores of a server and its clients while they are measured."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks import cores


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not let anybody choose")
def test_a_server_is_pinned_to_the_last_core_and_unpinned_again() -> None:
    every = os.sched_getaffinity(0)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as server:
        cores.apart(server.pid, [])
        assert os.sched_getaffinity(server.pid) == {max(every)}
        cores.anywhere(server.pid, [])
        assert os.sched_getaffinity(server.pid) == every
        server.communicate(b"\n")
