"""The overview of a connection on the page *Queues*: totals, order, warnings, and charts that start at zero."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from tests.airflow.browser.conftest import MAIN
from tests.airflow.browser.screen import Screen

pytestmark = pytest.mark.slow

Opened = Callable[..., Any]
DRAW = """
const [values, then] = arguments;
const samples = values.map((ready, number) => ({ at: number * 2500, ready }));
import("/rmq/static/chart.js").then(({ sparkline }) => {
  then(sparkline(samples).querySelector(".line").getAttribute("d"));
});
"""


def heights(screen: Screen, values: list[int]) -> list[float]:
    """Return the height of each point of a sparkline of these values above its lower edge, of 26 pixels."""
    drawn = screen.driver.execute_async_script(DRAW, values)
    return [26 - float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", drawn)]


def sorts(screen: Screen) -> dict[str, Any]:
    """Return the sort order that each sortable column head shows."""
    return {each.text: each.get_attribute("aria-sort") for each in screen.all("th[aria-sort]")}


def head(screen: Screen, label: str) -> Any:
    return next(each for each in screen.all("button.sort") if each.text == label)


def test_the_axis_of_a_chart_starts_at_zero_so_that_a_small_change_is_no_peak(screen: Screen) -> None:
    screen.open(MAIN)
    before, after = heights(screen, [1000, 1001])
    assert after - before < 0.1
    assert before > 20
    assert heights(screen, [0, 500, 1000]) == pytest.approx([3, 13, 23], abs=0.2)
    assert heights(screen, [0, 0]) == [3, 3]


def test_totals_cover_all_queues_and_sorting_covers_all_of_them(screen: Screen, opened: Opened) -> None:
    for number in range(60):
        opened(f"q{number:02}").publish_many(["x"] * (1 + number % 3))
    opened("q57").publish_many(["x"] * 1000)
    screen.open()
    screen.wait(lambda: len(screen.rows()) == 50, "a page of queues")
    screen.shows("1,120\nin 60 of 60 queues", ".tile.ready")
    head(screen, "Ready").click()
    screen.wait(lambda: screen.rows()[0] == "q57", "the fullest queue, from the second page")
    assert sorts(screen)["Ready"] == "descending"
    head(screen, "Ready").send_keys(Keys.ENTER)
    screen.wait(lambda: screen.rows()[0] == "q00", "the emptiest queue")
    assert sorts(screen) == dict.fromkeys(["Queue", "Oldest", "Leased", "Delayed", "Dead"], "none") | {
        "Ready": "ascending"
    }
    Select(screen.find(".sort-by select")).select_by_visible_text("Name")
    screen.wait(lambda: screen.rows() == [f"q{number:02}" for number in range(50)], "the order by name")
    assert sorts(screen)["Queue"] == "ascending"
    screen.press(Keys.ESCAPE, "]")
    screen.wait(lambda: screen.rows() == [f"q{number:02}" for number in range(50, 60)], "the second page")
    screen.shows("1,120\nin 60 of 60 queues", ".tile.ready")
    screen.find("input.search").send_keys("q5")
    screen.shows("1,021\nin 10 of 10 queues", ".tile.ready")


def test_queues_that_need_attention_come_first_and_the_focus_stays_on_its_row(screen: Screen, opened: Opened) -> None:
    queues = {name: opened(name, max_deliveries=1) for name in ("alpha", "beta", "gamma")}
    for queue in queues.values():
        queue.publish_many(["x", "y"])
    screen.open()
    screen.wait(lambda: screen.rows() == ["alpha", "beta", "gamma"], "all queues")
    screen.shows("No queue needs attention.", ".order-note")
    screen.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    queues["gamma"].nack(queues["gamma"].claim())
    screen.wait(lambda: screen.rows() == ["gamma", "alpha", "beta"], "the queue with a dead letter first")
    screen.shows("1 queue needs attention and comes first: those that cannot be read, have dead letters", ".order-note")
    assert screen.run("return [...document.querySelectorAll('tr.alarm a.name')].map((e) => e.innerText)") == ["gamma"]
    assert screen.run("return document.activeElement.querySelector('a.name').textContent") == "beta"
    queues["beta"].admin.pause()
    screen.wait(lambda: screen.rows() == ["gamma", "beta", "alpha"], "the paused queue next")
    screen.press(Keys.ENTER)
    screen.shows("beta", "h1")
