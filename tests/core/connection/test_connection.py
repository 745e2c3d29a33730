from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

import rmq_core.asyncio
from rmq_core import LeasedConfig, LeasedQueue
from rmq_core.connection.settings import RedisSettings
from rmq_core.errors import ConfigurationError, QueueUnavailable
from tests.core.leases import PATIENCE_S, eventually
from tests.core.topologies import KEY, LOGIN, PASSWORD, TOPOLOGIES, USER, Certificates, Topology, sentinel, tls
from tests.servers.process import until

BRIEF_S = 1
LOST = (redis.TimeoutError, redis.ConnectionError)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module", params=list(TOPOLOGIES))
def topology(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[Topology]:
    with TOPOLOGIES[request.param](certificates) as found:
        yield found


@pytest.fixture(scope="module")
def tls_server(certificates: Certificates) -> Iterator[Topology]:
    with tls(certificates) as found:
        yield found


def settings_for(topology: Topology, **options: Any) -> RedisSettings:
    return RedisSettings.from_url(
        topology.url, **({"username": USER, "password": PASSWORD, **topology.options} | options)
    )


def test_a_client_authenticates_and_works(topology: Topology) -> None:
    with settings_for(topology).client() as client:
        client.set(KEY, "v")
        assert client.get(KEY) == b"v"
        client.delete(KEY)


def test_a_wrong_password_is_refused_without_being_shown(topology: Topology) -> None:
    with (
        pytest.raises((redis.AuthenticationError, ConfigurationError), match="invalid username-password") as caught,
        settings_for(topology, password="canary-wrong").client() as client,
    ):
        client.get(KEY)
    assert "canary" not in str(caught.value)


def test_a_client_does_not_send_a_write_again_by_itself(topology: Topology) -> None:
    with settings_for(topology, socket_timeout=BRIEF_S).client() as client:
        eventually(lambda: cleared(client))
        with pushes(redis.connection) as sent, writes_stand_still(topology), pytest.raises(LOST):
            client.rpush(KEY, "x")
        assert len(sent) == 1
        eventually(lambda: cleared(client))


def cleared(client: Any) -> bool:
    """Return whether the server deleted the key; False when it did not answer in time."""
    try:
        return client.delete(KEY) is not None
    except LOST:
        return False


@contextmanager
def writes_stand_still(topology: Topology) -> Iterator[None]:
    """Block writes; connecting and reading still work."""
    with topology.servers[0].client(username=USER, password=PASSWORD) as client:
        client.client_pause(3_600_000, all=False)
        try:
            yield
        finally:
            client.client_unpause()


@contextmanager
def pushes(module: Any) -> Iterator[list[bytes]]:
    """Collect every RPUSH that the connections of this module send."""
    sent: list[bytes] = []
    send = module.AbstractConnection.send_packed_command

    def listen(self: Any, command: Any, *args: Any, **options: Any) -> Any:
        packed = command if isinstance(command, bytes) else b"".join(command)
        sent.extend([packed] * (b"RPUSH" in packed))
        return send(self, command, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.AbstractConnection, "send_packed_command", listen)
        yield sent


def test_a_server_of_an_unknown_authority_is_not_trusted(tls_server: Topology, certificates: Certificates) -> None:
    with (
        settings_for(tls_server, ssl_ca_certs=str(certificates.stranger)).client() as client,
        pytest.raises(redis.ConnectionError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        client.ping()


def test_the_host_name_is_verified_by_default(tls_server: Topology) -> None:
    tls_server = Topology(tls_server.url.replace("127.0.0.1", "localhost"), [], tls_server.options)
    with settings_for(tls_server).client() as client, pytest.raises(redis.ConnectionError, match=r"[Hh]ostname"):
        client.ping()
    with settings_for(tls_server, ssl_check_hostname=False).client() as client:
        assert client.ping()


@pytest.mark.parametrize("make", [LeasedQueue, rmq_core.asyncio.LeasedQueue])
@pytest.mark.parametrize(
    ("named", "options", "host"),
    [("ssl_ca_certs", {"ssl_ca_certs": "stranger"}, "127.0.0.1"), ("ssl_check_hostname", {}, "localhost"),
     ("ssl_certfile", {"ssl_certfile": "stranger", "ssl_keyfile": "stranger"}, "127.0.0.1")],
)  # fmt: skip
async def test_a_queue_does_not_wait_for_a_certificate_to_become_right(
    tls_server: Topology, certificates: Certificates, make: Any, named: str, options: dict[str, str], host: str
) -> None:
    suffix = {"ssl_keyfile": ".key"}
    given = {name: str(certificates.stranger.with_suffix(suffix.get(name, ".pem"))) for name in options}
    url = Topology(tls_server.url.replace("127.0.0.1", host), [], tls_server.options)
    queue = make(settings_for(url, **given), "q", LeasedConfig(retry_budget=3600))
    with pytest.raises(ConfigurationError, match=named):
        await answer if inspect.isawaitable(answer := queue.publish("x")) else None
    await closed if inspect.isawaitable(closed := queue.close()) else None


def test_a_queue_on_a_replica_says_so_and_works_once_it_is_promoted(certificates: Certificates) -> None:
    with sentinel(certificates) as topology:
        replica = topology.servers[1]
        settings = RedisSettings.from_url(replica.url, **LOGIN)
        with LeasedQueue(settings, "q", LeasedConfig(retry_budget=0.1)) as queue:
            with pytest.raises(QueueUnavailable, match="replica and refuses writes"):
                queue.publish("x")
            with replica.client(**LOGIN) as client:
                client.replicaof("NO", "ONE")
            assert queue.publish("x").accepted


def test_a_client_follows_the_sentinel_to_the_new_master(certificates: Certificates) -> None:
    with sentinel(certificates) as topology, settings_for(topology).client() as client:
        assert isinstance(client, redis.Redis)
        master, replica = topology.servers
        client.set(KEY, "v")
        until(lambda: client.wait(1, 5_000) == 1, PATIENCE_S)
        assert port_of(client) == master.port
        until(lambda: fail_over(client), PATIENCE_S)
        until(lambda: port_of(client) == replica.port, PATIENCE_S)
        assert client.get(KEY) == b"v"


def fail_over(client: redis.Redis) -> bool:
    watching = client.connection_pool.sentinel_manager.sentinels[0]
    try:
        return bool(watching.sentinel_failover("main"))
    except redis.ResponseError:  # the sentinel has not queried the replica yet
        return False


def port_of(client: redis.Redis) -> int:
    # A failover closes connections. Close them here too, so that the client connects again, as a driver does.
    client.connection_pool.disconnect()
    try:
        return int(client.config_get("port")["port"])
    except LOST:
        return 0


def test_a_cluster_of_which_no_node_answers_is_unavailable() -> None:
    made = RedisSettings.from_url("redis+cluster://u:canary@127.0.0.1:1,127.0.0.1:2")
    with pytest.raises(QueueUnavailable, match=r"Redis did not answer: .*127\.0\.0\.1:[12]") as caught:
        made.client()
    assert "canary" not in str(caught.value)


def test_a_server_without_cluster_mode_is_distinguished_from_an_unreachable_one(tls_server: Topology) -> None:
    made = RedisSettings.from_url(tls_server.url.replace("rediss", "redis+cluster"), tls=True, **tls_server.options)
    with pytest.raises(ConfigurationError, match=r"runs without cluster mode; write redis://"):
        made.client()
