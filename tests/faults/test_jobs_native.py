"""The faults of `test_jobs` on a server with IDMP, XREADGROUP CLAIM and XACKDEL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.test_jobs import (  # noqa: F401  collected here, too
    test_a_call_has_its_effect_once_whatever_message_is_lost,
    test_a_full_server_refuses_new_jobs_and_drains_to_empty,
    test_a_worker_whose_replies_are_lost_loses_no_job,
    test_killed_workers_lose_no_job,
)
from tests.servers import NAMES, Server, start_server

pytestmark = pytest.mark.skipif("8.6" not in NAMES, reason="`make servers` found no Redis 8.6 or later in Debian")


@pytest.fixture(scope="module")
def own_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Redis 8.6, whichever server the other fault tests run on."""
    del request
    server = start_server("8.6")
    yield server
    server.stop()
