"""The connection type in Airflow's own pages: the form shows its fields, and the test button connects to Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmq_airflow.get_provider_info import get_provider_info
from tests.airflow.browser.airflow import ApiServer
from tests.airflow.browser.conftest import MAIN
from tests.airflow.browser.connections import Connections
from tests.airflow.browser.screen import Screen

pytestmark = pytest.mark.slow

NOBODY = "nobody-there"


@pytest.fixture
def connections(screen: Screen) -> Connections:
    screen.log_in("admin")
    return Connections(screen)


@pytest.fixture
def nobody_there(airflow: ApiServer) -> Iterator[str]:
    """A connection to a port on which no server listens."""
    body = {"connection_id": NOBODY, "conn_type": "redis_queue", "host": "127.0.0.1", "port": 1}
    with airflow.client() as client:
        client.post("/connections", json=body).raise_for_status()
        yield NOBODY
        client.delete(f"/connections/{NOBODY}").raise_for_status()


def test_the_form_shows_every_field_with_its_description(connections: Connections) -> None:
    (described,) = get_provider_info()["connection-types"]
    connections.open()
    connections.edit(MAIN)
    shown = connections.screen.text("[role=dialog]")
    assert described["hook-name"] in shown
    for field in described["conn-fields"].values():
        assert field["label"] in shown
        assert field.get("description", "") in shown
    assert "null" not in shown


def test_the_test_button_reports_the_server_that_answered(connections: Connections) -> None:
    connections.open()
    connections.test(MAIN, "answers, runs scripts, and its clock is")


def test_the_test_button_reports_that_no_server_answers(connections: Connections, nobody_there: str) -> None:
    connections.open()
    connections.test(nobody_there, "Redis did not answer")
