"""Access control of the page: every request asks Airflow's auth manager what the user may see and do.

Law: this is the only module of the page that knows Airflow's security, and it fails closed: when its imports or the
auth manager fail, the request fails. Reading the numbers needs the right to see plugins and to read the connection.
Showing or moving messages needs the right to edit the connection: a user with that right can reach the messages anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, ConnectionDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.models.connection import Connection
from airflow.providers.common.compat.sdk import conf
from fastapi import Depends, Header, HTTPException, Request

Method = Literal["GET", "PUT"]
User = GetUserDep
HEADER = "X-RMQ-Request"

page = Depends(requires_access_view(AccessView.PLUGINS))
"""Required by every route: the user is known and may see plugins."""


def permitted(user: User, connection_id: str, method: Method) -> bool:
    """Return whether the user may read (GET) or edit (PUT) a connection."""
    team = Connection.get_team_name(connection_id) if conf.getboolean("core", "multi_team", fallback=False) else None
    details = ConnectionDetails(conn_id=connection_id, team_name=team)
    return get_auth_manager().is_authorized_connection(method=method, details=details, user=user)


def _requires(method: Method, refusal: str) -> Callable[..., None]:
    def check(connection_id: str, user: User) -> None:
        if not permitted(user, connection_id, method):
            raise HTTPException(403, refusal)

    return check


read = Depends(_requires("GET", "you may not read this connection"))
edit = Depends(_requires("PUT", "only users who may edit this connection can see and move its messages"))


def _from_our_page(
    request: Request,
    x_rmq_request: Annotated[str | None, Header()] = None,
    sec_fetch_site: Annotated[str | None, Header()] = None,
    origin: Annotated[str | None, Header()] = None,
) -> None:
    # A browser sends the login cookie with requests from foreign pages too. A foreign page cannot set a custom header
    # without a preflight request to the server, and the browser reports the origin of the request.
    foreign = sec_fetch_site not in (None, "same-origin")
    if sec_fetch_site is None and origin is not None:
        foreign = urlsplit(origin).netloc != request.headers.get("host")
    if foreign or x_rmq_request is None:
        raise HTTPException(403, f"changes are accepted only from Airflow's own pages and with the header {HEADER}")


changes = [edit, Depends(_from_our_page)]
"""Required by every route that changes something: the right to edit, and a request from our own page."""
