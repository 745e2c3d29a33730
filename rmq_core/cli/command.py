"""Runs the command that processes a message, and ends it if this process loses the lease of the message."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress

from rmq_core.messages import Lease

_LOOK_S = 0.5
_GRACE_S = 10


def run_command(command: Sequence[str], data: bytes, about: Mapping[str, str], lease: Lease) -> int:
    """Run a command with `data` on stdin. Return its exit code, or minus the number of the signal that killed it.

    The command has a process group of its own: Ctrl-C reaches only `rmq`, and the command can finish its work. When the
    lease is lost, or a second signal comes, the command and all processes it started are ended.
    """
    with tempfile.TemporaryFile() as payload:  # a pipe would have to be fed between checks of the lease
        payload.write(data)
        payload.seek(0)
        # S603: the command is the user's own.
        child = subprocess.Popen(command, stdin=payload, env={**os.environ, **about}, process_group=0)
        try:
            return _watched(child, lease)
        except BaseException:
            _end(child)
            raise


def _watched(child: subprocess.Popen[bytes], lease: Lease) -> int:
    while True:
        with suppress(subprocess.TimeoutExpired):
            return child.wait(_LOOK_S)
        lease.check()


def _end(child: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_S)
            return
