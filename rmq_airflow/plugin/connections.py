"""The connections whose queues the page shows, and where their servers are.

Those of type `redis_queue` in the metadata database, and those that `[rmq] connections` names: a secrets backend or
the environment cannot be listed. Every other connection is unknown here, so that the page cannot be used to try them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from airflow.models.connection import Connection
from airflow.providers.common.compat.sdk import conf
from airflow.utils.session import create_session
from sqlalchemy import select

from rmq_airflow.location import extra_of, settings_of
from rmq_core import ConfigurationError, RedisSettings

CONNECTION_TYPE = "redis_queue"
PATIENCE_S = 2.0
"""For one answer of a server. The page is asked again every few seconds, and must say soon that nobody answers."""


class Known(NamedTuple):
    """A connection of the page: its id and its place, `database` or `[rmq] connections`."""

    id: str
    source: str


def known() -> list[Known]:
    """The connections in the order of their ids; blocks on the metadata database."""
    found = dict.fromkeys(_configured(), "[rmq] connections")
    with create_session() as session:
        stored = select(Connection.conn_id).where(Connection.conn_type == CONNECTION_TYPE)
        found |= dict.fromkeys(session.scalars(stored), "database")
    return [Known(name, found[name]) for name in sorted(found)]


def settings(connection_id: str) -> RedisSettings:
    """Where the server of a connection is; blocks. Raises LookupError for one that the page does not know."""
    if connection_id not in [connection.id for connection in known()]:
        raise LookupError(
            f"there is no connection {connection_id!r} of type {CONNECTION_TYPE} in the metadata database; if it is "
            "kept elsewhere, add it to `[rmq] connections`"
        )
    connection = Connection.get_connection_from_secrets(connection_id)
    found = settings_of(connection, extra_of(connection))
    return replace(found, socket_timeout=PATIENCE_S, socket_connect_timeout=PATIENCE_S, client_name="rmq-airflow-page")


def _configured() -> list[str]:
    names = [name.strip() for name in conf.get("rmq", "connections", fallback="").split(",")]
    if any("/" in name for name in names):
        raise ConfigurationError("`[rmq] connections` must be a comma-separated list of connection ids")
    return [name for name in names if name]
