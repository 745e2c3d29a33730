from __future__ import annotations

import pytest

from rmq_core import ConfigurationError
from rmq_core.serve.app import PLACE
from rmq_dagster import console_link
from rmq_dagster.assets import about


def test_metadata_of_a_queue_links_to_its_page_in_the_console(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQ_CONSOLE", "https://rmq.test/ops/")
    assert about("a/b ż")["rmq/console"].url == "https://rmq.test/ops/#/redis/a%2Fb%20%C5%BC"
    assert console_link.PLACE == PLACE


def test_metadata_of_a_lease_links_to_the_lease_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQ_CONSOLE", "https://rmq.test")
    links = {name: value.url for name, value in console_link.console_link("work", "42/load").items()}
    assert links == {
        "rmq/console": "https://rmq.test/#/redis/work",
        "rmq/lease": "https://rmq.test/#/redis/work/leases/42%2Fload",
    }


def test_without_an_address_there_is_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RMQ_CONSOLE", raising=False)
    assert about("work") == {"rmq/queue": "work"}


def test_an_address_that_a_browser_cannot_open_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQ_CONSOLE", "rmq.test:8484")
    with pytest.raises(ConfigurationError, match="RMQ_CONSOLE"):
        about("work")
