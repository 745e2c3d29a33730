"""The URI of a queue as an asset: the address of the queue, without credentials.

    rmq://host[:port]/db/queue
    rmq+sentinel://host[:port],host[:port].../service/db/queue
    rmq+cluster://host[:port],host[:port].../0/queue
    rmq+unix:/path/to/redis.sock/db/queue
    rmq+embedded:/path/to/a/directory/db/queue

Law: in every form the last two segments are the database and the queue, percent-encoded. All URIs of one queue are
normalised to the same text: hosts in lower case and sorted, ports written out. The URI does not say whether TLS is
used, since TLS does not identify a queue.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import Dataset as OpenLineageDataset
    from airflow.providers.common.compat.sdk import Asset

    from rmq_core import RedisSettings


class _Form(NamedTuple):
    """The part of a URI between the scheme and the database."""

    example: str
    port: int | None
    """The default port; None for a form without hosts."""
    hosts: int | None
    segments: int | None
    """The required number of segments before the database. In `hosts` and `segments`, None means one or more."""


FORMS = {
    "rmq": _Form("rmq://host:6379/0/queue", 6379, 1, 0),
    "rmq+sentinel": _Form("rmq+sentinel://host1:26379,host2:26379/service/0/queue", 26379, None, 1),
    "rmq+cluster": _Form("rmq+cluster://host1:6379,host2:6379/0/queue", 6379, None, 0),
    "rmq+unix": _Form("rmq+unix:/path/to/redis.sock/0/queue", None, 0, None),
    "rmq+embedded": _Form("rmq+embedded:/path/to/a/directory/0/queue", None, 0, None),
}
SCHEMES = {"redis": "rmq", "rediss": "rmq", "sentinel": "rmq+sentinel", "redis+cluster": "rmq+cluster",
           "unix": "rmq+unix", "embedded": "rmq+embedded"}  # fmt: skip
"""The scheme of the asset URI for each scheme of a connection."""
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:@\[\]]+)(?::([0-9]{1,5}))?")


def queue_asset(settings: RedisSettings, queue: str, extra: dict[str, Any] | None = None) -> Asset:
    """Return the asset of a queue on the server of a connection."""
    from airflow.providers.common.compat.sdk import Asset  # asset modules import this one

    hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in settings.hosts)
    place = (
        quote(settings.path) if settings.path else f"/{quote(settings.service, safe='')}" if settings.service else ""
    )
    uri = f"{SCHEMES[settings.scheme]}://{hosts}{place}/{settings.db}/{quote(queue, safe='')}"
    return Asset(uri=uri, extra=extra)


def create_asset(
    *, queue: str, host: str = "localhost", port: int = 6379, db: int = 0, extra: dict[str, Any] | None = None
) -> Asset:
    """Return the asset of a queue on a single server; Airflow calls this function for the scheme `rmq`."""
    from airflow.providers.common.compat.sdk import Asset  # asset modules import this one

    address = f"[{host}]" if ":" in host else host
    return Asset(uri=f"rmq://{address}:{port}/{db}/{quote(queue, safe='')}", extra=extra)


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Return the normalised form of this URI. Raises ValueError if it names no queue."""
    form = FORMS[uri.scheme]
    if "@" in uri.netloc:
        raise ValueError(f"an asset URI must hold no user or password; write {form.example}")
    if uri.query:
        raise ValueError(f"an asset URI of a queue has no options; write {form.example}")
    before, database, queue = _segments(uri, form)
    if not database.isdecimal() or (uri.scheme == "rmq+cluster" and int(database)):
        raise ValueError(f"{database!r} is not a database of that server; write {form.example}")
    path = "/".join((*before, str(int(database)), quote(unquote(queue), safe="")))
    return uri._replace(netloc=_hosts(uri.netloc, form), path=f"/{path}")


def convert_asset_to_openlineage(asset: Asset, lineage_context: object) -> OpenLineageDataset | None:  # noqa: ARG001  the provider's signature
    """Return the dataset of a queue; its server and database are the namespace. None without the OpenLineage client."""
    from airflow.providers.common.compat.openlineage.facet import Dataset  # loads a client

    uri = urlsplit(asset.uri)
    path, _, queue = uri.path.rpartition("/")
    return Dataset(namespace=urlunsplit(uri._replace(path=path)), name=unquote(queue))


def _segments(uri: SplitResult, form: _Form) -> tuple[list[str], str, str]:
    """Return the segments before the database, the database, and the queue."""
    parts = uri.path.strip("/").split("/")
    before = parts[:-2]
    fits = len(before) == form.segments if form.segments is not None else bool(before)
    if len(parts) < 2 or not fits or not all(parts):
        raise ValueError(f"the path {uri.path!r} does not name a queue; write {form.example}")
    return before, parts[-2], parts[-1]


def _hosts(netloc: str, form: _Form) -> str:
    names = [name for name in netloc.lower().split(",") if name]
    found = [_HOST.fullmatch(name) for name in names]
    if not all(found) or (len(names) != form.hosts if form.hosts is not None else not names):
        raise ValueError(f"the hosts {netloc!r} do not fit this scheme; write {form.example}")
    return ",".join(sorted({f"{match[1]}:{int(match[2] or form.port or 0)}" for match in found if match}))
