"""The audit log of `rmq serve`: JSON lines in a file or on stderr, two for each change.

The first line is written before the change, with the outcome still unknown; the second has the same `entry`, and the
outcome. If the first line cannot be written, the change is not made.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rmq_core.errors import ConfigurationError


class AuditLines:
    """Writes to the end of a file, which is opened for every line so that it can be rotated; to stderr without one."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        try:
            self._append("")
        except OSError as error:
            raise ConfigurationError(f"--audit: {path} cannot be written: {error}") from error

    def write(self, event: str, user: str, fields: Mapping[str, Any]) -> str:
        """Write the first line, and return the entry's id."""
        entry = secrets.token_hex(8)
        self.complete(entry, event, user, fields)
        return entry

    def complete(self, entry: Any, event: str, user: str, fields: Mapping[str, Any]) -> None:
        """Write a line of an entry."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._append(json.dumps({"at": at, "entry": entry, "event": event, "user": user, **fields}) + "\n")

    def _append(self, line: str) -> None:
        if self._path is None:
            sys.stderr.write(line)
            sys.stderr.flush()
            return
        with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
            file.write(line.encode())
