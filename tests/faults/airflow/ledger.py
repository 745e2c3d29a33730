"""The log of the tasks of the fault rounds, and the files that are the effects of their work: a folder per queue.

A line of `log` is `<verb> <fencing number> <message id> <time>`: `did` when work on a message begins, `acked` once its
ack was reported, `stale` when it was refused. A line is one write: SIGKILL leaves it whole or not there. Effects are
files of `sink`, named by the message's id, so that a second delivery overwrites what the first one left. A task waits
in the middle of a batch until the test opens the gate, the file `go`: the fault happens during this wait.

Spark's executors import this file: it needs nothing but the standard library.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

FOLDER = "RMQ_TESTS_FAULTS"
FREE = 5  # messages of a batch that are processed before the gate
PATIENCE_S = 1200
LOOK_S = 0.1


class Ledger:
    """The folder of one queue, below `base` or the folder that the environment variable names."""

    def __init__(self, queue: str, base: Path | None = None) -> None:
        self.folder = (base or Path(os.environ[FOLDER])) / queue
        self.sink = self.folder / "sink"
        self.sink.mkdir(parents=True, exist_ok=True)

    def work(self, fence: int, message_id: str, payload: str) -> None:
        """Write the effect of a message; then wait for the gate, unless it is one of the first `FREE` messages."""
        self.have_effect(fence, message_id, payload)
        if int(payload) >= FREE:
            self.stand_still()

    def have_effect(self, fence: int, message_id: str, payload: str) -> None:
        """Write the file of the message."""
        self.write("did", fence, [message_id])
        scratch = self.folder / f"{message_id}.{os.getpid()}"
        scratch.write_text(payload)
        scratch.rename(self.sink / message_id)

    def stand_still(self) -> None:
        """Mark that a task is at the gate, and wait for the gate to open."""
        (self.folder / "stands").touch()
        if _has_timed_out():
            return
        deadline = time.monotonic() + PATIENCE_S
        while not (self.folder / "go").exists():
            if time.monotonic() > deadline:
                raise TimeoutError("the test did not open the gate")
            time.sleep(LOOK_S)

    def stands(self) -> bool:
        """Return whether a task has come to the gate."""
        return (self.folder / "stands").exists()

    def open_gate(self) -> None:
        """Open the gate: no task waits from now on."""
        (self.folder / "go").touch()

    def write(self, verb: str, fence: int, message_ids: Iterable[str]) -> None:
        """Append lines."""
        now = time.time()
        lines = "".join(f"{verb} {fence} {message_id} {now:.3f}\n" for message_id in message_ids)
        file = os.open(self.folder / "log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        try:
            os.write(file, lines.encode())
        finally:
            os.close(file)

    def fences(self, verb: str) -> dict[str, list[int]]:
        """Return the fencing numbers under which each message was processed or settled."""
        found: dict[str, list[int]] = defaultdict(list)
        for what, fence, message_id, _ in self._lines():
            if what == verb:
                found[message_id].append(int(fence))
        return found

    def began(self) -> dict[str, float]:
        """Return when the work on each message began for the first time, in seconds since the epoch."""
        times: dict[str, float] = {}
        for what, _, message_id, moment in self._lines():
            if what == "did":
                times.setdefault(message_id, float(moment))
        return times

    def effects(self) -> dict[str, str]:
        """Return the payload of each message that had its effect, by id."""
        return {path.name: path.read_text() for path in self.sink.iterdir()}

    def twice(self) -> int:
        """Return how many deliveries were not the first of their message."""
        return sum(len(fences) - 1 for fences in self.fences("did").values())

    def doubled(self) -> int:
        """Return the number of surplus effects, given that each payload was published once."""
        effects = self.effects()
        return len(effects) - len(set(effects.values()))

    def stale(self) -> int:
        """Return how many acks were accepted although another consumer had got the message by then, or had acked it."""
        did, acked = self.fences("did"), self.fences("acked")
        late = sum(fence != max(did[one]) for one, fences in acked.items() for fence in fences)
        return late + sum(len(fences) - 1 for fences in acked.values())

    def _lines(self) -> list[list[str]]:
        log = self.folder / "log"
        return [line.split(" ") for line in log.read_text().splitlines()] if log.exists() else []


def _has_timed_out() -> bool:
    """Return whether this is a later try of a task that had to time out, by the variables that Airflow sets."""
    timed = os.environ.get("AIRFLOW_CTX_DAG_ID", "").endswith("_timed")
    return timed and os.environ.get("AIRFLOW_CTX_TRY_NUMBER", "1") != "1"


def fence_of(token: str | None) -> int:
    """Return the number in a token; the rest of the token must not be written to a file."""
    return int((token or "").partition(".")[0])
