"""Entries of the page in Airflow's audit log. The console says when they are written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow.models.log import Log
from airflow.utils.session import create_session
from sqlalchemy import update


class AirflowLog:
    """One entry for each change; the outcome is added to it."""

    def write(self, event: str, user: str, fields: Mapping[str, Any]) -> int:
        """Write the entry, and return its number."""
        with create_session(scoped=False) as session:
            made = Log(event=event, owner=user, owner_display_name=user, extra=json.dumps(dict(fields)))
            session.add(made)
            session.flush()
            return int(made.id)

    def complete(self, entry: Any, event: str, user: str, fields: Mapping[str, Any]) -> None:  # noqa: ARG002  what a log takes
        """Replace the fields of the entry."""
        with create_session(scoped=False) as session:
            session.execute(update(Log).where(Log.id == entry).values(extra=json.dumps(dict(fields))))
