"""The connections whose queues the page shows, and the addresses of their servers.

These are the connections of type `redis_queue` in the metadata database, and those that `[rmq] connections` names: it
is impossible to list a secrets backend or the environment. The page rejects every other connection, so that no user
can probe one through it.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from airflow.configuration import ensure_secrets_loaded
from airflow.models.connection import Connection
from airflow.providers.common.compat.sdk import AirflowNotFoundException, conf
from airflow.utils.session import create_session
from sqlalchemy import select

from rmq_airflow.location import CONNECTION_TYPE, Location, read
from rmq_console import ServedPlace
from rmq_core import ConfigurationError, RedisSettings

CLIENT_NAME = "rmq-airflow-page"
PATIENCE_S = 2.0
"""Timeout of one reply. The browser polls the page every few seconds, and the page must report a silent server soon."""
log = logging.getLogger(__name__)


def team_of(connection_id: str) -> str | None:
    """Return the team of a connection; None without multi-team mode, or if no team owns it. Blocks.

    A connection that only the environment or a secrets backend has belongs to no team.
    """
    return Connection.get_team_name(connection_id) if conf.getboolean("core", "multi_team", fallback=False) else None


def known() -> list[ServedPlace]:
    """Return the connections in the order of their ids; blocks on the metadata database."""
    found = dict.fromkeys(_configured(), "[rmq] connections")
    with create_session(scoped=False) as session:
        stored = select(Connection.conn_id).where(Connection.conn_type == CONNECTION_TYPE)
        found |= dict.fromkeys(session.scalars(stored), "database")
    return [ServedPlace(name, found[name]) for name in sorted(found)]


def settings(connection_id: str) -> RedisSettings:
    """Return the settings of a connection's server; blocks. Raises LookupError for a connection not on the page."""
    if connection_id not in [connection.id for connection in known()]:
        raise LookupError(
            f"there is no connection {connection_id!r} of type {CONNECTION_TYPE} in the metadata database; if it is "
            "kept elsewhere, add it to `[rmq] connections`"
        )
    try:
        return place(connection_id, CLIENT_NAME).settings
    except AirflowNotFoundException as missing:
        raise LookupError(str(missing)) from missing


class Connections:
    """The connections as the places of the console."""

    known = staticmethod(known)

    def settings(self, place: str) -> RedisSettings:
        """Return the settings of a connection's server. Raises LookupError for a connection not on the page."""
        return settings(place)


def place(connection_id: str, client_name: str) -> Location:
    """Return where a connection leads, for clients of that name; the connection must be known to be on the page."""
    found = read(_looked_up(connection_id))
    settings = replace(
        found.settings, socket_timeout=PATIENCE_S, socket_connect_timeout=PATIENCE_S, client_name=client_name
    )
    return found._replace(settings=settings)


def _looked_up(connection_id: str) -> Connection:
    # Not `get_connection_from_secrets`: it writes every connection of the database as a URL into a cache, and each time
    # logs a warning about the "_" in the name of our type.
    team = team_of(connection_id)
    scope = {} if team is None else {"team_name": team}  # not every backend knows teams
    for backend in ensure_secrets_loaded():
        try:
            found: Connection | None = backend.get_connection(conn_id=connection_id, **scope)
        except PermissionError:  # when a backend refuses, no other backend is queried
            raise
        except Exception as error:  # skip a backend that fails, as Airflow does
            log.debug("%s did not find connection %s: %s", type(backend).__name__, connection_id, type(error).__name__)
            continue
        if found is not None:
            return found
    raise AirflowNotFoundException(f"The conn_id `{connection_id}` isn't defined")


def _configured() -> list[str]:
    names = [name.strip() for name in conf.get("rmq", "connections", fallback="").split(",")]
    if any("/" in name for name in names):
        raise ConfigurationError("`[rmq] connections` must be a comma-separated list of connection ids")
    return [name for name in names if name]
