"""What the tasks of the fault rounds write down, and where their effects go: a folder for each queue.

A line of `log` is `<verb> <fencing number> <message id>`: `did` when work on a message begins, `acked` once its ack was
reported, `stale` when it was refused. A line is one write: SIGKILL leaves it whole or not there. Effects are files of
`sink`, named by the message's id, so that a second delivery overwrites what the first one left. Work stands still in
the middle of a batch until somebody opens the gate, the file `go`: meanwhile the fault comes.

Spark's executors import this file: it needs nothing but the standard library.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

FOLDER = "RMQ_TESTS_FAULTS"
FREE = 5  # messages of a batch that are worked on before the gate
PATIENCE_S = 1200
LOOK_S = 0.1


class Ledger:
    """The folder of one queue, below `base` or the folder that the environment names."""

    def __init__(self, queue: str, base: Path | None = None) -> None:
        self.folder = (base or Path(os.environ[FOLDER])) / queue
        self.sink = self.folder / "sink"
        self.sink.mkdir(parents=True, exist_ok=True)

    def work(self, fence: int, message_id: str, payload: str) -> None:
        """Have the effect of a message; after that of any but the first few, wait for the gate."""
        self.have_effect(fence, message_id, payload)
        if int(payload) >= FREE:
            self.stand_still()

    def have_effect(self, fence: int, message_id: str, payload: str) -> None:
        """Write the message's file."""
        self.write("did", fence, [message_id])
        scratch = self.folder / f"{message_id}.{os.getpid()}"
        scratch.write_text(payload)
        scratch.rename(self.sink / message_id)

    def stand_still(self) -> None:
        """Say so, and wait for the gate."""
        (self.folder / "stands").touch()
        if _has_timed_out():
            return
        deadline = time.monotonic() + PATIENCE_S
        while not (self.folder / "go").exists():
            if time.monotonic() > deadline:
                raise TimeoutError("nobody opened the gate")
            time.sleep(LOOK_S)

    def stands(self) -> bool:
        """Whether somebody has come to the gate."""
        return (self.folder / "stands").exists()

    def open_gate(self) -> None:
        """From now on nothing stands still."""
        (self.folder / "go").touch()

    def write(self, verb: str, fence: int, message_ids: Iterable[str]) -> None:
        """Append lines."""
        lines = "".join(f"{verb} {fence} {message_id}\n" for message_id in message_ids)
        file = os.open(self.folder / "log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        try:
            os.write(file, lines.encode())
        finally:
            os.close(file)

    def fences(self, verb: str) -> dict[str, list[int]]:
        """The fencing numbers under which something was done to each message."""
        found: dict[str, list[int]] = defaultdict(list)
        log = self.folder / "log"
        for line in log.read_text().splitlines() if log.exists() else ():
            what, fence, message_id = line.split(" ")
            if what == verb:
                found[message_id].append(int(fence))
        return found

    def effects(self) -> dict[str, str]:
        """The payload of each message that had its effect, by id."""
        return {path.name: path.read_text() for path in self.sink.iterdir()}

    def twice(self) -> int:
        """How many deliveries were not the first of their message."""
        return sum(len(fences) - 1 for fences in self.fences("did").values())

    def doubled(self) -> int:
        """How many effects a payload had too many, each payload having been published once."""
        effects = self.effects()
        return len(effects) - len(set(effects.values()))

    def stale(self) -> int:
        """How many acks were accepted although somebody else had got the message by then, or had acked it."""
        did, acked = self.fences("did"), self.fences("acked")
        late = sum(fence != max(did[one]) for one, fences in acked.items() for fence in fences)
        return late + sum(len(fences) - 1 for fences in acked.values())


def _has_timed_out() -> bool:
    """Whether this is a later try of a task that was to time out, by the variables that Airflow gives its tasks."""
    timed = os.environ.get("AIRFLOW_CTX_DAG_ID", "").endswith("_timed")
    return timed and os.environ.get("AIRFLOW_CTX_TRY_NUMBER", "1") != "1"


def fence_of(token: str | None) -> int:
    """The number in a token; the rest of it belongs into no file."""
    return int((token or "").partition(".")[0])
