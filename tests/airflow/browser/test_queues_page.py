"""What a user of Airflow's UI does on the page, in light and dark mode, with mouse and keyboard, also during errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from rmq_airflow.links import address
from rmq_core import Isolation, open_queue
from tests.airflow.browser.conftest import EMPTY, MAIN
from tests.airflow.browser.screen import Screen
from tests.servers.process import Server

pytestmark = pytest.mark.slow

OWNER = "airflow:etl/manual__2026-11-20T22:00:00+00:00/load/-1/2"
Opened = Callable[..., Any]


def bury(queue: Any, *names: str) -> None:
    for name in names:
        queue.publish({"name": name}, headers={"airflow-dag-id": "etl"})
        queue.nack(queue.claim(owner=OWNER), reason=f"ValueError: {name} is bad")


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


def test_the_numbers_are_live(screen: Screen, opened: Opened) -> None:
    queue = opened("work")
    queue.publish("first")
    screen.open(MAIN, "work")
    screen.shows("1", ".tile.ready")
    queue.publish_many([str(number) for number in range(41)])
    screen.wait(lambda: screen.tile("ready") == "42", "42 ready messages")
    screen.wait(lambda: screen.all(".chart .line.ready"), "a line in the chart")
    screen.shows("growing", ".chart-head")
    queue.ack(queue.claim(max_messages=42))
    screen.wait(lambda: screen.tile("ready") == "0", "no ready message")


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


def test_a_queue_is_found_and_opened_by_keyboard_alone(screen: Screen, opened: Opened) -> None:
    for name in ("alpha", "beta", "betamax"):
        opened(name).publish("x")
    screen.open()
    screen.wait(lambda: screen.rows() == ["alpha", "beta", "betamax"], "all queues")
    screen.press("/", "b", "e", "t")
    screen.wait(lambda: screen.rows() == ["beta", "betamax"], "two queues")
    screen.press(Keys.ESCAPE, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    screen.shows("betamax", "h1")
    screen.press("2")
    screen.find("table.ready tbody tr")
    screen.press(Keys.ARROW_DOWN, Keys.ENTER)
    screen.shows("Payload (text, 1 B)")
    screen.press("?")
    screen.shows("find a queue", "dialog")
    screen.press(Keys.ESCAPE)
    screen.wait(lambda: not screen.all("dialog"), "the dialog to close")
    screen.press(Keys.ESCAPE)
    screen.shows("Queues", "h1")


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
    screen.shows("Release 3 messages?", "dialog")
    screen.shows("load, try 2, can no longer settle them", "dialog")
    screen.button("Cancel").click()
    screen.wait(lambda: not screen.all("dialog"), "the dialog to close")
    assert len(queue.admin.leases()) == 1
    screen.button("Release").click()
    screen.click("dialog .primary")
    screen.shows("3 messages are ready again", "#toasts")
    screen.shows("No leases")
    assert queue.stats()[:5] == (3, 0, 0, 0, 0)


def test_a_lease_that_a_retry_took_over_during_the_confirmation_is_not_released(screen: Screen, opened: Opened) -> None:
    queue = opened("work")
    queue.publish_many([*"ab"])
    queue.claim(lease_id="etl/run/load/-1", owner=OWNER, max_messages=2, lease=3600)
    screen.open(MAIN, "work")
    screen.button("Release").click()
    screen.shows("Release 2 messages?", "dialog")
    retry = f"{OWNER[:-1]}3"
    queue.claim(lease_id="etl/run/load/-1", owner=retry, lease=3600)
    screen.click("dialog .primary")
    screen.shows("nothing was released: it is owned by", "#toasts")
    screen.shows("try 3", "table.leases")
    assert [lease.owner for lease in queue.admin.leases()] == [retry]
    assert screen.complaints(but="409") == []


def test_an_expired_lease_is_marked_until_it_is_released(screen: Screen, opened: Opened) -> None:
    queue = opened("work")
    queue.publish("x")
    queue.claim(owner="worker-7", lease=1)
    screen.open(MAIN, "work")
    screen.shows("expired, will be reclaimed", "table.leases")
    screen.button("Release").click()
    screen.shows("Release this message?", "dialog")
    screen.click("dialog .primary")
    screen.shows("1 message is ready again", "#toasts")
    assert queue.stats()[:5] == (1, 0, 0, 0, 0)


def test_isolated_messages_are_counted_and_explained(screen: Screen, opened: Opened) -> None:
    queue = opened("work")
    queue.publish_many([*"abcd"])
    queue.nack(queue.claim(max_messages=4))
    screen.open(MAIN)
    screen.shows("work", "tbody")
    assert "isolated" not in screen.text("main")
    queue.nack(queue.claim(max_messages=4))
    assert queue.claim(max_messages=4, owner=OWNER, lease=3600).isolation == Isolation(2, 2)
    queue.publish("e")
    screen.shows("2 isolated", "tbody")
    screen.shows("2 of the ready messages are isolated. They failed together before", ".note")
    screen.run("location.hash = arguments[0]", f"#/{MAIN}/work")
    screen.shows("2 isolated", "h1")
    screen.shows("Messages that are tried apart", ".note")
    screen.shows(str(Isolation(2, 2)), "table.leases")


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


def test_browsing_messages_leaves_them_in_their_queue(screen: Screen, opened: Opened) -> None:
    queue = opened("work")
    queue.publish({"city": "Łódź", "rows": [1, 2]}, headers={"traceparent": "00-abc"})
    queue.publish("<img src=x onerror=\"document.body.innerHTML='hacked'\">", headers={"<b>": "<i>"})
    queue.publish("later", delay=600)
    screen.open(MAIN, "work", "ready")
    screen.click("tbody tr")
    screen.shows('"city": "Łódź"', ".details pre")
    screen.shows("00-abc", ".details")
    screen.all("tbody tr[tabindex]")[1].click()
    screen.shows("<img src=x", "tbody")
    screen.shows("<b>", "tbody")
    assert screen.all("tbody img, tbody b, tbody i") == []
    screen.click(".tab.delayed")
    screen.shows("later", "tbody")
    screen.shows("in 10 min", "tbody")
    assert queue.stats()[:2] == (2, 1)


def test_dead_letters_show_their_reason_and_are_redriven_one_by_one_or_all(screen: Screen, opened: Opened) -> None:
    queue = opened("work", max_deliveries=1)
    bury(queue, *"abc")
    screen.open(MAIN, "work", "dead")
    screen.shows("ValueError: c is bad", "table.dead tbody tr")
    screen.click("table.dead tbody tr")
    screen.shows("etl", ".history")
    screen.shows("try 2", ".history")
    screen.all("tbody input[type=checkbox]")[1].click()
    screen.button("Redrive 1").click()
    screen.shows("Redrive this dead letter?", "dialog")
    screen.click("dialog .primary")
    screen.shows("1 dead letter is ready again", "#toasts")
    assert queue.claim().message.payload == {"name": "b"}
    screen.button("Redrive all").click()
    screen.shows("Redrive 2 dead letters?", "dialog")
    screen.button("Cancel").click()
    assert queue.stats().dead == 2
    screen.button("Redrive all").click()
    screen.click("dialog .primary")
    screen.shows("No dead letter")
    assert queue.stats()[:5] == (2, 0, 1, 1, 0)


def test_a_purge_requires_typing_the_name_of_the_queue(screen: Screen, opened: Opened) -> None:
    queue = opened("work", max_deliveries=1)
    bury(queue, *"abc")
    queue.publish("stays")
    screen.open(MAIN, "work", "dead")
    screen.click(".actions .purge")
    delete = screen.find("dialog .danger")
    assert not delete.is_enabled()
    screen.press("w", "o", "r")
    assert not delete.is_enabled()
    screen.press(Keys.ENTER)
    assert queue.stats().dead == 3
    screen.press("k")
    assert delete.is_enabled()
    delete.click()
    screen.shows("3 dead letters deleted", "#toasts")
    screen.shows("No dead letter")
    assert queue.stats()[:5] == (1, 0, 0, 0, 0)


@pytest.mark.parametrize("role", ["viewer", "user"])
def test_a_user_without_the_right_to_read_connections_sees_an_explanation(
    screen: Screen, opened: Opened, role: str
) -> None:
    opened("work").publish("x")
    screen.log_in(role)
    screen.open(MAIN, "work", "ready")
    screen.shows("No connection that you may read")
    assert "work" not in screen.text("main")


def test_a_million_messages_are_paged_through(screen: Screen, opened: Opened) -> None:
    queue = opened("work")
    queue.publish_many([f"m{number}" for number in range(100)])
    read, write = "redis.call('LRANGE', KEYS[1], 0, 99)", "redis.call('LPUSH', KEYS[1], unpack(e))"
    queue.client.eval(f"local e = {read} for i = 1, 9999 do {write} end", 1, "rmq:{work}:ready")
    screen.open(MAIN, "work", "ready")
    screen.shows("1\N{EN DASH}25 of 1,000,000", ".pages")
    screen.press("]")
    screen.shows("26\N{EN DASH}50 of 1,000,000", ".pages")
    screen.find(".goto").send_keys("500001", Keys.ENTER)
    screen.shows("500,001\N{EN DASH}500,025 of 1,000,000", ".pages")
    assert len(screen.all("tbody tr[tabindex]")) == 25


def test_a_discipline_with_fewer_capabilities_is_shown_with_what_it_supports(
    screen: Screen, opened: Opened, main_redis: Server
) -> None:
    with main_redis.client() as client:
        streams = open_queue(client, "events", "streams")
        streams.publish({"n": 1})
    screen.open(MAIN)
    screen.shows("streams", "tbody .badge")
    screen.open(MAIN, "events")
    screen.shows("keeps no list of leases")
    screen.click(".tab.delayed")
    screen.shows("There is no list of these")
    screen.click(".tab.ready")
    screen.shows('"n":1', "tbody")


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
