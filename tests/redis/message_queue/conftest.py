"""One test body over {sync, async} x {fakeredis, the servers of the matrix}: ask for `world`.

`one_world` is the same on a single server, for tests whose subject is not Redis; `flavour` is for those that need none.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmq_core.compat.heartbeat import Beat
from tests.conftest import server_names
from tests.faults.proxy import Proxy
from tests.redis.message_queue.behind import PATIENCE_S
from tests.redis.message_queue.places import FAKE, Fake, Place, Real, find_place
from tests.redis.message_queue.worlds import AsyncWorld, SyncWorld, World


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each place when it asks for one."""
    if "place" in metafunc.fixturenames:
        metafunc.parametrize("place", [FAKE, *server_names(metafunc.config)], indirect=True, scope="session")


@pytest.fixture(autouse=True)
def unhurried_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a block waits for a renewal that a busy machine holds up, and does not warn of it.

    For beats as quick as those of tests that would be after 0.1 s.
    """
    monkeypatch.setattr(Beat, "stop_s", PATIENCE_S)


@pytest.fixture(scope="session")
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """One place, there for the whole session."""
    with find_place(request.param) as found:
        yield found


@pytest.fixture(params=[SyncWorld, AsyncWorld], ids=["sync", "async"])
def flavour(request: pytest.FixtureRequest) -> type[World]:
    """The world to build."""
    made: type[World] = request.param
    return made


@pytest.fixture
def world(flavour: type[World], place: Place) -> Iterator[World]:
    """Queues of one flavour on an empty database of each place."""
    with flavour(place) as made:
        made.look.flushdb()
        yield made


@pytest.fixture
def one_world(flavour: type[World], redis_url: str) -> Iterator[World]:
    """Queues of one flavour on an empty database of one server."""
    with flavour(Real(redis_url)) as made:
        yield made


@pytest.fixture
def no_world(flavour: type[World]) -> Iterator[World]:
    """Queues of one flavour that nobody asks to do anything."""
    with flavour(Fake()) as made:
        yield made


@pytest.fixture
def proxy(redis_url: str) -> Iterator[Proxy]:
    """A wire to the server that can be cut."""
    with Proxy(int(redis_url.rsplit(":", 1)[1].split("/", maxsplit=1)[0])) as made:
        yield made
