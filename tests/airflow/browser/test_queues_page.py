"""What a user of Airflow's UI does on the page, in light and dark mode, with mouse and keyboard, also during errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rmq_airflow.links import address
from tests.airflow.browser.conftest import EMPTY, MAIN
from tests.airflow.browser.screen import Screen
from tests.servers.process import Server

pytestmark = pytest.mark.slow

OWNER = "airflow:etl/manual__2026-11-20T22:00:00+00:00/load/-1/2"
Opened = Callable[..., Any]


def test_the_page_is_linked_in_airflows_navigation(screen: Screen, opened: Opened) -> None:
    opened("work").publish_many([*"abc"])
    screen.driver.get(screen.airflow.url)
    screen.click("a[href$='/plugin/rmq']")
    screen.enter()
    assert screen.tile("ready") == "3"
    assert screen.rows() == ["work"]


def test_the_address_of_a_queue_survives_a_reload_of_airflow(screen: Screen, opened: Opened) -> None:
    opened("a/b: ż").publish("x")
    screen.open_in_airflow(MAIN, "a/b: ż", "ready")
    screen.shows("a/b: ż", "h1")
    screen.wait(lambda: "%20%C5%BC" in screen.run("return parent.location.href"), "the address")
    screen.driver.switch_to.default_content()
    screen.driver.refresh()
    screen.enter()
    screen.shows("a/b: ż", "h1")
    screen.shows("Ready", ".tab[aria-current]")


def test_the_page_follows_airflows_light_or_dark_theme(screen: Screen, opened: Opened) -> None:
    opened("work").publish("x")
    themes = []
    for dark in (False, True):
        screen.log_in("op", dark=dark)
        screen.open_in_airflow()
        screen.shows("work")
        inside = screen.run("return getComputedStyle(document.body).backgroundColor")
        outside = screen.run("return parent.getComputedStyle(parent.document.documentElement).backgroundColor")
        assert inside == outside
        themes.append((screen.run("return document.documentElement.dataset.theme"), inside))
    assert [theme for theme, _ in themes] == ["light", "dark"]
    assert themes[0][1] != themes[1][1]
    screen.run("parent.document.documentElement.classList.replace('dark', 'light')")
    screen.wait(lambda: screen.run("return document.documentElement.dataset.theme") == "light", "the switch")


def test_a_lease_links_to_the_page_of_the_task_that_holds_it(screen: Screen, opened: Opened) -> None:
    queue = opened("work")
    queue.publish_many([*"abcd"])
    lease = queue.claim(lease_id="etl/run/load/-1", owner=OWNER, max_messages=4, lease=300)
    queue.ack(lease, lease.messages[:1])
    screen.open_in_airflow(MAIN, "work")
    screen.shows("1 of 4 settled", "table.leases")
    screen.shows("try 2", "table.leases")
    screen.click("table.leases a.task")
    path = "/dags/etl/runs/manual__2026-11-20T22%3A00%3A00%2B00%3A00/tasks/load"
    screen.driver.switch_to.default_content()
    screen.wait(lambda: path in screen.driver.current_url, path)


def test_the_link_of_a_task_leads_to_its_lease_or_to_how_it_ended(screen: Screen, opened: Opened) -> None:
    queue = opened("w/ż")
    queue.publish_many([*"abcd"])
    queue.claim(owner="another", lease=300)
    held = queue.claim(lease_id="etl/a/b:1/load/-1", owner=OWNER, lease=300)
    link = f"{screen.airflow.url}{address(MAIN, 'w/ż', held.id)}"
    screen.driver.get("about:blank")  # Airflow opens a link in a new page
    screen.driver.get(link)
    screen.enter()
    screen.shows("try 2", "table.leases")
    assert len(screen.all("table.leases tr.lease")) == 1
    queue.ack(held)
    screen.shows("This lease was acked")


def test_a_lease_is_released_after_a_confirmation(screen: Screen, opened: Opened) -> None:
    queue = opened("work")
    queue.publish_many([*"abcd"])
    lease = queue.claim(lease_id="etl/run/load/-1", owner=OWNER, max_messages=4, lease=3600)
    queue.ack(lease, lease.messages[:1])
    screen.open(MAIN, "work")
    screen.button("Release").click()
    screen.shows("Release the lease of 3 messages?", "dialog")
    screen.shows("load, try 2, can no longer settle them", "dialog")
    screen.button("Cancel").click()
    screen.wait(lambda: not screen.all("dialog"), "the dialog to close")
    assert len(queue.admin.leases()) == 1
    screen.button("Release").click()
    screen.click("dialog .primary")
    screen.shows("Released 3 messages of work", "#toasts")
    screen.shows("No leases")
    assert queue.stats()[:5] == (3, 0, 0, 0, 0)


def test_a_page_that_is_read_again_while_it_loads_lists_its_messages_once(screen: Screen, opened: Opened) -> None:
    """A second list would replace the first under the cursor and close what the user had opened."""
    opened("work").publish("a")
    screen.open(MAIN, "work")
    screen.shows("Leases", "main")
    screen.run(
        """
        const fetched = window.fetch;
        window.asked = 0;
        window.fetch = async (address, options) => {
          if (!String(address).includes("/messages?")) return fetched(address, options);
          window.asked += 1;
          await new Promise((done) => setTimeout(done, 1000));
          return fetched(address, options);
        };
        const again = () => document.dispatchEvent(new Event("visibilitychange"));
        addEventListener("hashchange", () => [100, 200, 300].forEach((ms) => setTimeout(again, ms)), { once: true });
        location.hash = arguments[0];
        """,
        f"#/{MAIN}/work/ready",
    )
    screen.find("tbody tr")
    screen.run("return new Promise((done) => setTimeout(done, 1500))")
    assert screen.run("return window.asked") == 1


@pytest.mark.parametrize("role", ["viewer", "user"])
def test_a_user_without_the_right_to_read_connections_sees_an_explanation(
    screen: Screen, opened: Opened, role: str
) -> None:
    opened("work").publish("x")
    screen.log_in(role)
    screen.open(MAIN, "work", "ready")
    screen.shows("No connection that you may read")
    assert "work" not in screen.text("main")


def test_a_server_without_queues_shows_how_to_begin(screen: Screen, opened: Opened) -> None:
    screen.open(EMPTY)
    screen.shows("No queue yet")
    screen.shows("RedisQueuePublishOperator")


def test_nothing_is_loaded_from_another_host(screen: Screen, opened: Opened) -> None:
    opened("work").publish("x")
    screen.open(MAIN, "work")
    screen.shows("work", "h1")
    names = screen.run("return performance.getEntriesByType('resource').map(({ name }) => name)")
    assert len(names) > 10
    assert [name for name in names if not name.startswith(screen.airflow.url + "/rmq/")] == []


def test_an_outage_of_redis_is_reported_and_the_numbers_return_after_it(
    screen: Screen, opened: Opened, main_redis: Server
) -> None:
    opened("work").publish("x")
    screen.open(MAIN, "work", "ready")
    screen.shows("1", ".tile.ready")
    place = screen.find("tbody tr").rect
    main_redis.pause()
    try:
        screen.shows("Redis does not answer", ".alert")
        assert screen.tile("ready") == "1"
        assert screen.find("tbody tr").rect == place, "a row that moves is not the row that is clicked"
        screen.open(MAIN)
        screen.shows("Redis does not answer", ".empty")
    finally:
        main_redis.resume()
    screen.shows("work", "tbody")
    assert screen.all(".alert") == []
