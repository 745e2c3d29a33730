"""The console with what Airflow supplies: users and rights, connections, the audit log, tasks.

Law: this is the only module of the page that knows Airflow's security, and it fails closed: every request asks the auth
manager what the user may see and do, and fails when that fails. Reading the numbers needs the right to see plugins and
to read the connection, or `[rmq] numbers_for_all_users`. Showing or moving messages needs the right to edit the
connection: a user with that right can reach the messages anyway.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, ConnectionDetails, TeamDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.models.log import Log
from airflow.providers.common.compat.sdk import conf
from airflow.utils.session import create_session
from fastapi import Depends, Request
from sqlalchemy import update

from rmq_airflow.plugin.connections import Connections, team_of
from rmq_airflow.plugin.holders import holder_of
from rmq_console import Host, Right, Words, create_app

Method = Literal["GET", "PUT"]
METHODS: dict[Right, Method] = {"numbers": "GET", "server": "GET", "messages": "PUT", "change": "PUT"}


def identify(request: Request, user: GetUserDep, _: None = Depends(requires_access_view(AccessView.PLUGINS))) -> None:
    """Required by every route: the user is known and may see plugins."""
    request.state.user = user


class AirflowAccess:
    """The users of this Airflow. Reading a connection gives the right to its numbers, editing it all others."""

    identify = staticmethod(identify)

    def permitted(self, user: Any, place: str, right: Right) -> bool:
        """Return whether the auth manager grants the method that the right stands for, or an option the numbers."""
        team = team_of(place)
        details = ConnectionDetails(conn_id=place, team_name=team)
        if get_auth_manager().is_authorized_connection(method=METHODS[right], details=details, user=user):
            return True
        return right == "numbers" and _open_to(user, team)

    def name(self, user: Any) -> str:
        """Return the name under which Airflow audits the user."""
        return str(user.get_name())


def _open_to(user: Any, team: str | None) -> bool:
    """Return whether the option shows the numbers of a team's connections to the user; a public role is not a user."""
    if getattr(user, "is_anonymous", False) or not conf.getboolean("rmq", "numbers_for_all_users", fallback=False):
        return False
    return team is None or get_auth_manager().is_authorized_team(method="GET", details=TeamDetails(team), user=user)


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


ADD = (
    "Add a connection of type “Redis Queue” under Admin \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} Connections. If "
    "it is kept in the environment or in a secrets backend, name it in the configuration:"
)
WORDS = Words(
    server="Airflow's API server",
    no_numbers="you may not read this connection",
    no_messages="only users who may edit this connection can see and move its messages",
    no_change="only users who may edit this connection can see and move its messages",
    no_server="only users who may read this connection can see the reason, which may name its server",
    foreign="changes are accepted only from Airflow's own pages",
    hidden="There are queue connections, but you need permission to read them. Ask an administrator of this Airflow.",
    nothing=(ADD, "[rmq]\nconnections = redis_queue_default"),
    publish=(
        "A queue appears here when its first message is published. Publish one from a task:",
        'RedisQueuePublishOperator(task_id="publish", redis_queue="work", messages=["hello"])',
    ),
)

app = create_app(Host(AirflowAccess(), Connections(), AirflowLog(), holder_of, WORDS))
