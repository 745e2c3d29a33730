"""One test body over {sync, async} x {fakeredis, the servers of the matrix}: request the fixture `world`.

`one_world` is the same on one server, for tests whose subject is not Redis; `flavour` is for those without a server.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmq_core.redis_message_queue.heartbeat import Heartbeats
from tests.core.redis_message_queue.behind import PATIENCE_S
from tests.core.redis_message_queue.places import FAKE, Fake, Place, Real, find_place
from tests.core.redis_message_queue.worlds import AsyncWorld, SyncWorld, World
from tests.covering import places, server_names
from tests.faults.proxy import Proxy


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each place when it asks for one."""
    if "place" in metafunc.fixturenames:
        metafunc.parametrize(
            "place", places(metafunc, [FAKE, *server_names(metafunc.config)]), indirect=True, scope="session"
        )


@pytest.fixture(autouse=True)
def unhurried_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the end of a block wait for a renewal that a busy machine delays, without a warning.

    With the short heartbeat intervals of the tests, the warning would come after 0.1 s.
    """
    monkeypatch.setattr(Heartbeats, "stop_s", PATIENCE_S)


@pytest.fixture(scope="session")
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """One place, which exists for the whole session."""
    with find_place(request.param) as found:
        yield found


@pytest.fixture(params=[SyncWorld, AsyncWorld], ids=["sync", "async"])
def flavour(request: pytest.FixtureRequest) -> type[World]:
    """The world to build."""
    made: type[World] = request.param
    return made


@pytest.fixture
def world(flavour: type[World], place: Place) -> Iterator[World]:
    """Queues of one concurrency model on an empty database of each place."""
    with flavour(place) as made:
        made.inspector.flushdb()
        yield made


@pytest.fixture
def one_world(flavour: type[World], redis_url: str) -> Iterator[World]:
    """Queues of one concurrency model on an empty database of one server."""
    with flavour(Real(redis_url)) as made:
        yield made


@pytest.fixture
def no_world(flavour: type[World]) -> Iterator[World]:
    """Queues of one concurrency model whose server is never used."""
    with flavour(Fake()) as made:
        yield made


@pytest.fixture
def proxy(redis_url: str) -> Iterator[Proxy]:
    """A proxy to the server whose connections can be cut."""
    with Proxy(int(redis_url.rsplit(":", 1)[1].split("/", maxsplit=1)[0])) as made:
        yield made
