"""Connection settings: one frozen value read from a URL, which creates the clients.

Credentials never appear in `repr`, `str`, `url_without_credentials` or an error. Pickling keeps them, because executors
on other machines have to connect too. Clients never resend: redis-py's own retries are off, because they also repeat
writes that are not idempotent. The drivers in `exchange` retry, because they know what may be sent twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlencode

from rmq_core._version import __version__
from rmq_core.connection.url import Hosts, Option, parse
from rmq_core.errors import ConfigurationError, QueueUnavailable, RedisMessageQueueError, translate

# redis-py takes longer to import than all other modules together: import it only for a client
if TYPE_CHECKING:
    import redis
    import redis.asyncio
    import redis.asyncio.cluster
    import redis.asyncio.sentinel
    import redis.cluster

_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_TIMEOUTS = ("socket_timeout", "socket_connect_timeout")


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class RedisSettings:
    """The address of Redis and how to connect to it. Make one with `RedisSettings.from_url`."""

    scheme: str
    hosts: Hosts = ()
    """Servers, sentinels or cluster nodes: pairs of host and port."""
    path: str = ""
    """The Unix socket, or the directory of an embedded server."""
    service: str = ""
    """The service name of the server at the sentinels."""
    db: int = 0
    username: str | None = None
    password: str | None = None
    sentinel_username: str | None = None
    sentinel_password: str | None = None

    tls: bool = field(default=False, metadata={"shown": True})
    ssl_ca_certs: str | None = field(default=None, metadata={"shown": True})
    ssl_certfile: str | None = field(default=None, metadata={"shown": True})
    ssl_keyfile: str | None = field(default=None, metadata={"shown": True})
    ssl_password: str | None = None
    ssl_cert_reqs: str = field(default="required", metadata={"shown": True})
    ssl_check_hostname: bool = field(default=True, metadata={"shown": True})

    socket_timeout: float = field(default=5.0, metadata={"shown": True})
    """Seconds to wait for a reply; a call that blocks in Redis waits longer on a connection of its own."""
    socket_connect_timeout: float = field(default=5.0, metadata={"shown": True})
    max_connections: int | None = field(default=None, metadata={"shown": True})
    client_name: str | None = field(default=None, metadata={"shown": True})
    protocol: int = field(default=2, metadata={"shown": True})
    """RESP version. RESP 2 replies are the same in all supported redis-py and servers; it connects in fewer trips."""

    @classmethod
    def from_url(
        cls, url: str, *, username: str | None = None, password: str | None = None, **options: Option | None
    ) -> Self:
        """Read a URL. Its query may hold every option under redis-py's name; a keyword overrides the query.

        - `redis://[user:password@]host:6379/0`, `rediss://…` for TLS, `unix:///path/to/redis.sock?db=0`
        - `sentinel://[user:password@]host1:26379,host2:26379/service_name[/db]`; the credentials are those of the
          server, `sentinel_username` and `sentinel_password` those of the sentinels
        - `redis+cluster://[user:password@]host1:6379,host2:6379`
        - `embedded:///directory` or `embedded://./directory`: a private server, started when needed and shared only by
          processes of this machine; `from_url` makes a relative directory absolute

        Options: `db`; `tls` (for sentinel and cluster), `ssl_ca_certs`, `ssl_certfile`, `ssl_keyfile`,
        `ssl_password`, `ssl_cert_reqs` (required, optional, none), `ssl_check_hostname`; `socket_timeout` and
        `socket_connect_timeout` in seconds; `max_connections`, `client_name`, `protocol` (2 or 3).

        Raises ConfigurationError, which names the parameter and never shows a credential.
        """
        return cls(**parse(url, {"username": username, "password": password, **options}))

    def __post_init__(self) -> None:
        """Raise ConfigurationError for settings that contradict each other."""
        if self.scheme == "rediss":
            object.__setattr__(self, "tls", True)
        if self.tls and self.scheme not in ("rediss", "sentinel", "redis+cluster"):
            raise ConfigurationError("tls: write rediss:// for TLS; Unix sockets and embedded servers have none")
        if not self.tls and any(self._given(*_FILES, "ssl_password").values()):
            raise ConfigurationError("ssl_*: these options need TLS; write rediss://, or tls=true for several hosts")
        if self.scheme == "redis+cluster" and self.db:
            raise ConfigurationError("db: a cluster has only database 0; leave it out")
        if self.scheme == "embedded" and (self.username or self.password):
            raise ConfigurationError("username, password: an embedded server has none, its files are private")
        if self.scheme != "sentinel" and (self.sentinel_username or self.sentinel_password):
            raise ConfigurationError("sentinel_username, sentinel_password: these need a sentinel:// URL")

    @property
    def url_without_credentials(self) -> str:
        """The URL from which, with the credentials, these settings can be read again; safe in logs and environments."""
        options = {item.name: getattr(self, item.name) for item in fields(self) if self._is_told(item)}
        place = "".join(f"/{quote(part, safe='')}" for part in (self.service, str(self.db or "")) if part)
        if self.path:
            place = quote(self.path)
            options |= {"db": self.db} if self.db else {}
        query = f"?{urlencode(options)}" if options else ""
        return f"{self.scheme}://{','.join(_written(*host) for host in self.hosts)}{place}{query}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url_without_credentials!r})"

    def __str__(self) -> str:
        return self.url_without_credentials

    def client(self) -> redis.Redis | redis.cluster.RedisCluster:
        """Return a new client. `embedded://` first starts or joins the server; a cluster client fetches its nodes.

        Raises ConfigurationError, and QueueUnavailable when a cluster or an embedded server cannot be reached.
        """
        from redis import Redis
        from redis.cluster import ClusterNode, RedisCluster
        from redis.exceptions import ConnectionError as NotConnected
        from redis.exceptions import RedisClusterException
        from redis.exceptions import TimeoutError as NotInTime
        from redis.retry import Retry
        from redis.sentinel import Sentinel

        try:
            made: Redis | RedisCluster = self._made(Redis, Sentinel, RedisCluster, ClusterNode, Retry)
        except RedisClusterException as error:
            raise _cluster_trouble(self, error) from error
        except (NotConnected, NotInTime) as error:  # of the node from which redis-py reads the list of commands
            raise translate(error) from error
        return made

    def async_client(self) -> redis.asyncio.Redis | redis.asyncio.cluster.RedisCluster:
        """The same as `client` for asyncio, but a cluster client fetches its nodes only at its first command.

        Starting an embedded server blocks the event loop once for some 100 ms; joining one takes well below 1 ms.
        """
        from redis.asyncio import Redis
        from redis.asyncio.cluster import ClusterNode, RedisCluster
        from redis.asyncio.retry import Retry

        made: Redis | RedisCluster = self._made(Redis, *_tidy_async_classes(), ClusterNode, Retry)
        return made

    def _made(self, single: Any, sentinel: Any, cluster: Any, node: Any, retry: Any) -> Any:
        """Create the client from redis-py's blocking classes or from its asyncio classes."""
        from redis.backoff import NoBackoff

        once = retry(NoBackoff(), 0)
        if self.scheme == "redis+cluster":
            nodes = [node(*host) for host in self.hosts]
            return cluster(startup_nodes=nodes, retry=once, **_driver_info(cluster), **self._shared())
        if self.scheme == "sentinel":
            manager = sentinel(list(self.hosts), sentinel_kwargs={"retry": once, **self._sentinel()})
            given = _driver_info(single) | self._shared()
            return manager.master_for(self.service, single, retry=once, db=self.db, **given)
        return single(retry=once, db=self.db, **self._address(), **_driver_info(single), **self._shared())

    def _address(self) -> dict[str, Any]:
        if self.scheme == "embedded":
            from rmq_core import embedded

            return {"unix_socket_path": embedded.start(self.path)}
        if self.scheme == "unix":
            return {"unix_socket_path": self.path}
        return {"host": self.hosts[0][0], "port": self.hosts[0][1]}

    def _shared(self) -> dict[str, Any]:
        given = self._given("max_connections", "client_name")
        return given | self._transport() | _credentials(self.username, self.password)

    def _sentinel(self) -> dict[str, Any]:
        return self._transport() | _credentials(self.sentinel_username, self.sentinel_password)

    def _transport(self) -> dict[str, Any]:
        return {"protocol": self.protocol, **self._given(*_TIMEOUTS), "socket_keepalive": True, **self._tls()}

    def _tls(self) -> dict[str, Any]:
        if not self.tls:
            return {}
        for name, path in self._given(*_FILES).items():
            if not Path(path).is_file():
                raise ConfigurationError(f"{name}: there is no file {path}")
        given = self._given(*_FILES, "ssl_password", "ssl_cert_reqs")
        return given | {"ssl": True, "ssl_check_hostname": self.ssl_check_hostname and self.ssl_cert_reqs != "none"}

    def _given(self, *names: str) -> dict[str, Any]:
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def _is_told(self, item: Any) -> bool:
        """Return True for an option that the URL must name: it is shown, not the default, not implied by the scheme."""
        if not item.metadata.get("shown") or (item.name == "tls" and self.scheme == "rediss"):
            return False
        return bool(getattr(self, item.name) != item.default)


def _driver_info(client: Any) -> dict[str, Any]:
    """Return the option with which `CLIENT LIST` names RMQ and its version beside redis-py, from Redis 7.2 on.

    redis-py sends a name with every new connection anyway, in the same write as the credentials. client: the class that
    gets the option; cluster clients of redis-py 7.2 to 7.4 do not take it, and name redis-py alone.
    """
    try:
        from redis.driver_info import DriverInfo
    except ImportError:  # an older redis-py, which takes the text instead
        return {"lib_name": f"redis-py(rmq_v{__version__})"}
    from redis.cluster import REDIS_ALLOWED_KEYS, RedisCluster

    taken = REDIS_ALLOWED_KEYS if client is RedisCluster else signature(client).parameters
    return {"driver_info": DriverInfo().add_upstream_driver("rmq", __version__)} if "driver_info" in taken else {}


def _credentials(username: str | None, password: str | None) -> dict[str, Any]:
    """Return the credentials as a credential provider, because the repr of a redis-py 6 pool shows plain arguments."""
    from redis.credentials import UsernamePasswordCredentialProvider

    if username is None and password is None:
        return {}
    return {"credential_provider": UsernamePasswordCredentialProvider(username, password)}


def _cluster_trouble(settings: RedisSettings, error: Exception) -> RedisMessageQueueError:
    """Translate the error of a cluster client that could not fetch its nodes. It is not a RedisError of redis-py."""
    from redis.exceptions import RedisError

    if isinstance(error.__cause__, RedisError):
        return translate(error.__cause__)
    if "not enabled" in str(error):
        return ConfigurationError(f"url: the server of {settings} runs without cluster mode; write redis://")
    return QueueUnavailable(f"the cluster {settings} cannot serve now: {error}")


def _tidy_async_classes() -> tuple[type[redis.asyncio.sentinel.Sentinel], type[redis.asyncio.cluster.RedisCluster]]:
    """Return subclasses of redis-py's classes that leave no connection open when a client is closed."""
    from redis.asyncio.cluster import RedisCluster
    from redis.asyncio.sentinel import Sentinel

    class TidySentinel(Sentinel):
        @cached_property
        def known(self) -> tuple[Any, ...]:
            return tuple(self.sentinels)

        async def discover_master(self, service_name: str) -> Any:
            known = self.known
            try:
                return await super().discover_master(service_name)
            finally:
                if len(set(self.sentinels)) < len(known):  # concurrent calls can lose an entry of the list
                    self.sentinels = list(known)
                for sentinel in known:  # no later code closes the clients of the sentinels
                    await sentinel.connection_pool.disconnect(inuse_connections=False)

    class TidyCluster(RedisCluster):
        async def aclose(self) -> None:
            await super().aclose()
            for nodes in ("nodes_cache", "startup_nodes"):  # redis-py skips them if the last command failed
                await self.nodes_manager.aclose(nodes)

    return TidySentinel, TidyCluster


def _written(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
