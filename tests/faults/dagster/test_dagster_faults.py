"""Every fault on a real `dagster dev`: nothing is lost, settled by a stale holder, stuck or left running.

The short form kills run workers and the daemon, and its drivers are plain Python; the full form, `make faults`, has all
faults and drivers in Spark, and writes dagster-faults.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest

from tests.faults.dagster.deployment import Deployment, deployed
from tests.faults.dagster.faults import FULL, SHORT, Fault
from tests.faults.dagster.page import PAGE
from tests.faults.dagster.scene import Scene
from tests.faults.dagster.ways import DRIVER, ENDINGS, RETRIES, URL
from tests.servers import Server
from tests.servers.postgres import Postgres

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly(
        "dagster/test_daemon.py::test_a_daemon_requests_a_failed_message_again_and_shows_the_plots_of_a_queue"
    ),
]

DEFINITIONS = "tests.faults.dagster.definitions"
AS_USUAL = {ENDINGS: "on", RETRIES: "0"}
Deploy = Callable[[Mapping[str, str]], Deployment]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fault" in metafunc.fixturenames:
        faults = FULL if metafunc.config.getoption("faults") == "full" else SHORT
        metafunc.parametrize("fault", faults, ids=lambda fault: fault.name)


@pytest.fixture(scope="module")
def deploy(
    redis: Server, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Deploy]:
    """Return the deployment with this configuration; one with another configuration is stopped first."""
    driver = "spark" if pytestconfig.getoption("faults") == "full" else "plain"
    running: dict[str, Deployment] = {}
    with ExitStack() as ends:

        def told(more: Mapping[str, str]) -> Deployment:
            environment = {**AS_USUAL, **more, URL: redis.url, DRIVER: driver}
            key = str(sorted(environment.items()))
            if key not in running:
                running.clear()
                ends.close()
                folder = tmp_path_factory.mktemp("dagster")
                running[key] = ends.enter_context(deployed(folder, postgres, DEFINITIONS, environment))
            return running[key]

        yield told


def test_a_fault_loses_nothing_settles_nothing_stale_and_leaves_nothing_behind(
    fault: Fault, deploy: Deploy, redis: Server, *, full_faults: bool
) -> None:
    messages = 2 if full_faults else 1
    with Scene(fault.name, deploy(fault.told), redis, messages, measured=full_faults) as scene:
        fault.befall(scene)
        cells = scene.finish()
    PAGE.cells += cells
    assert [(cell.mode, wrong) for cell in cells if (wrong := PAGE.wrong(cell))] == []
