"""`Board`: a folder of notes and switches, through which a test and the processes of its deployment communicate.

A note is a line of JSON, written at once, so that SIGKILL leaves it whole or not there. A switch is a file.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

FOLDER = "RMQ_FAULTS_FOLDER"
LOOK_S = 0.1


class Board:
    """Notes of what was done, and switches: `hold` workers, `fail` them, `drag` ticks, `block` run slots."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def here(cls) -> Board:
        """Return the board of the deployment to which this process belongs."""
        return cls(Path(os.environ[FOLDER]))

    def note(self, event: str, mode: str, **more: object) -> None:
        """Write a note of an event."""
        line = json.dumps({"event": event, "mode": mode, "pid": os.getpid(), **more}) + "\n"
        file = os.open(self.folder / "notes", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def notes(self, *events: str) -> list[dict[str, Any]]:
        """Return the notes of these events, in order."""
        path = self.folder / "notes"
        written = path.read_text() if path.exists() else ""
        lines = written.rpartition("\n")[0].splitlines()  # a line without an end is being written
        return [note for note in map(json.loads, lines) if note["event"] in events]

    def forget(self) -> None:
        """Delete all notes."""
        (self.folder / "notes").unlink(missing_ok=True)

    def turn_on(self, *switches: str) -> None:
        for switch in switches:
            (self.folder / switch).touch()

    def turn_off(self, *switches: str) -> None:
        for switch in switches:
            (self.folder / switch).unlink(missing_ok=True)

    def is_on(self, switch: str) -> bool:
        return (self.folder / switch).exists()

    def wait_while(self, switch: str) -> None:
        """Return when the switch is off."""
        while self.is_on(switch):
            time.sleep(LOOK_S)
