"""The page on a phone, on half a screen and on a whole one: every view is readable and usable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from tests.airflow.browser.conftest import EMPTY, MAIN
from tests.airflow.browser.layout import faults
from tests.airflow.browser.screen import Screen
from tests.servers.process import Server

pytestmark = pytest.mark.slow

WIDTHS = {400: 800, 800: 1000, 1440: 900}
TELEPHONE = 640
DETAIL = pytest.mark.nightly("airflow/browser/test_layout.py::test_the_overview_fits")
LONG = "ingest.a-name-that-somebody-had-generated.tenant-4711.region-eu-central-1"
DAG = "airflow:ingest_everything_of_the_tenant/scheduled__2026-11-20T22:00:00+00:00"
URL = "HTTPError: 503 Service Unavailable for url https://weather.example/v2/stations/with/a/long/path?and=a&query=too"
Opened = Callable[..., Any]
Check = Callable[[str], None]


@pytest.fixture(params=[400, pytest.param(800, marks=DETAIL), pytest.param(1440, marks=DETAIL)])
def width(request: pytest.FixtureRequest, screen: Screen) -> Iterator[int]:
    """The width of the window, including Airflow's own navigation."""
    size = {"width": request.param, "height": WIDTHS[request.param], "deviceScaleFactor": 1, "mobile": False}
    screen.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    yield request.param
    screen.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.fixture
def check(screen: Screen, width: int) -> Check:
    """Fail with the name of each layout fault on the screen."""

    def looked_at(view: str) -> None:
        assert faults(screen, fingers=width <= TELEPHONE) == [], f"{view} at {width} px"

    return looked_at


@pytest.fixture
def scene(opened: Opened) -> Any:
    """Create queues with names, reasons and payloads of any length, in every state; return the longest of them."""
    for name in ("work", "reports.nightly"):
        opened(name).publish_many([f"s3://images/{number:08}.jpg" for number in range(300)])
    opened("reports.nightly").pause()
    apart = opened("apart")
    apart.publish_many([*"abcd"])
    for _ in (1, 2):
        apart.nack(apart.claim(max_messages=4))
    apart.claim(max_messages=4, owner=f"{DAG}/load/-1/1", lease=3600)
    queue = opened(LONG, max_deliveries=1)
    queue.publish_many([{"path": f"s3://bucket/{'deep/' * 30}{number}.parquet"} for number in range(8)])
    for reason in (URL, "R" * 300, "short"):
        queue.nack(queue.claim(owner=f"{DAG}/load_into_the_warehouse_of_the_region/3/2"), reason=reason)
    queue.claim(owner="worker-7@a-host-name-without-any-break-whatsoever.example.internal:4711", lease=1)
    queue.claim(owner=f"{DAG}/load_into_the_warehouse_of_the_region/3/2", lease=3600, max_messages=2)
    queue.publish("later", delay=600)
    return queue


def test_the_overview_fits(screen: Screen, scene: Any, check: Check) -> None:
    screen.open_in_airflow(MAIN)
    screen.shows("expired lease", "tbody")
    screen.shows("3 queues need attention", ".order-note")
    check("the overview")
    screen.find("input.search").send_keys("nothing")
    screen.shows("No queue of that name")
    check("a search that finds nothing")
    screen.press(Keys.ESCAPE, "?")
    screen.shows("find a queue", "dialog")
    check("the keys")


@DETAIL
def test_a_queue_and_the_release_of_a_lease_fit(screen: Screen, scene: Any, check: Check) -> None:
    screen.open_in_airflow(MAIN, LONG)
    screen.shows("expired, will be reclaimed", "table.leases")
    check("a queue")
    screen.button("Release").click()
    screen.shows("can no longer settle them", "dialog")
    check("the release")
    screen.click("dialog .primary")
    screen.shows("1 message is ready again", "#toasts")
    screen.open_in_airflow(MAIN, "apart")
    screen.shows("tried apart", "table.leases")
    check("a lease of isolated messages")


@DETAIL
def test_dead_letters_their_redrive_and_their_purge_fit(screen: Screen, scene: Any, check: Check) -> None:
    screen.open_in_airflow(MAIN, LONG, "dead")
    screen.find("table.dead tbody tr")
    check("dead letters")
    screen.all("table.dead tbody tr[tabindex]")[1].click()
    screen.click("table.dead tbody input")
    screen.shows("Redrive 1", ".actions")
    screen.find(".history")
    check("a dead letter with its history")
    screen.button("Redrive 1").click()
    screen.shows("Redrive this dead letter?", "dialog")
    check("the redrive")
    screen.button("Cancel").click()
    screen.click(".actions .purge")
    screen.shows("cannot be undone", "dialog")
    check("the purge")


@DETAIL
@pytest.mark.parametrize("part", ["ready", "delayed"])
def test_messages_fit(screen: Screen, scene: Any, check: Check, part: str) -> None:
    screen.open_in_airflow(MAIN, LONG, part)
    screen.click(f"table.{part} tbody tr")
    screen.shows("Payload (", ".details")
    check(part)
    screen.open_in_airflow(MAIN, "work", "ready")
    screen.shows("of 300", ".pages")
    check("the pages of a list")


def test_notices_and_errors_fit(screen: Screen, scene: Any, check: Check, main_redis: Server) -> None:
    screen.open_in_airflow(EMPTY)
    screen.shows("No queue yet")
    check("a server without queues")
    screen.open_in_airflow(MAIN, LONG, "delayed")
    screen.shows("later", "tbody")
    main_redis.pause()
    try:
        screen.shows("Redis does not answer", ".alert")
        check("a queue whose server hangs")
        screen.open_in_airflow(MAIN)
        screen.shows("Redis does not answer", ".empty")
        check("a server that hangs")
    finally:
        main_redis.resume()


def test_a_missing_permission_is_reported_within_the_window(screen: Screen, scene: Any, check: Check) -> None:
    screen.log_in("viewer")
    screen.open_in_airflow(MAIN)
    screen.shows("No connection that you may read")
    check("a page without connections")
