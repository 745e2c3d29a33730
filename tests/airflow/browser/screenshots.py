"""Renew the screenshots that the documentation shows: `python -m tests.airflow.browser.screenshots docs/images`."""

from __future__ import annotations

import math
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome

from rmq_core import LeasedConfig, LeasedQueue
from tests.airflow.browser import chromium
from tests.airflow.browser.airflow import ApiServer
from tests.airflow.browser.connections import Connections
from tests.airflow.browser.screen import Screen
from tests.servers import start_server
from tests.servers.process import Server

RUN = "scheduled__2026-11-20T{hour}:00:00+00:00"
HEADERS = {
    "airflow-dag-id": "flights_publish",
    "airflow-run-id": RUN.format(hour=21),
    "airflow-task-id": "publish",
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
}
REASONS = (
    "ArrowInvalid: Parquet magic bytes not found in footer",
    'ValueError: could not convert string to float: "NA" in column dep_delay',
    "HTTPError: 503 Service Unavailable for url https://weather.example/v2/stations",
)
TRAFFIC_S = 75


class Scene:
    """Queues with messages, and workers that process them."""

    def __init__(self, url: str) -> None:
        self.queues: dict[str, Any] = {}
        self.url = url
        self.held: list[Any] = []
        self._flights(self.queue("flights.delays", max_deliveries=2))
        self.queue("images.thumbnails").publish_many(f"s3://images/{number:08}.jpg" for number in range(400_000))
        self.queue("warehouse.backfill").publish_many([{"partition": f"2026-{m:02}"} for m in range(1, 13)] * 20)
        nightly = self.queue("reports.nightly")
        nightly.publish({"report": "revenue"})
        nightly.admin.pause()
        self.queue("entities.recompute").publish("customer/1")

    def queue(self, name: str, **config: Any) -> Any:
        self.queues[name] = LeasedQueue(self.url, name, LeasedConfig(**config))
        return self.queues[name]

    def work(self, turn: int) -> None:
        """Let every worker work for one second."""
        images, backfill = self.queues["images.thumbnails"], self.queues["warehouse.backfill"]
        images.ack(images.claim(max_messages=1900))
        images.publish_many([f"s3://images/new/{turn}-{number}.jpg" for number in range(250)])
        backfill.publish_many([{"turn": turn}] * round(14 + 13 * math.sin(turn / 6)))
        self.held.append(backfill.claim(max_messages=14, owner=owner("backfill", "load", turn % 4)))
        if len(self.held) > 4:
            backfill.ack(self.held.pop(0))

    def _flights(self, queue: Any) -> None:
        months = [(carrier, month) for carrier in ("AA", "B6", "DL", "UA", "WN") for month in range(1, 13)]
        queue.publish_many(
            [{"carrier": c, "month": m, "path": f"s3://flights/{c}/{m:02}.parquet"} for c, m in months], headers=HEADERS
        )
        for number in range(7):
            for attempt in (1, 2):
                held = queue.claim(owner=owner("flights_delays", "clean", -1, attempt))
                queue.nack(held, reason=REASONS[number % 3])
        for index, (size, done, lease) in enumerate([(12, 5, 900), (10, 9, 600), (8, 0, 400)]):
            holder = owner("flights_delays", "score", index, 1 + index % 2)
            held = queue.claim(lease_id=f"flights/{index}", owner=holder, max_messages=size, lease=lease)
            if done:
                queue.ack(held, held.messages[:done])
        for minutes in (4, 9, 14):
            queue.publish({"carrier": "VX", "note": "wait for the late file"}, delay=60 * minutes)


def owner(dag: str, task: str, index: int, attempt: int = 1) -> str:
    return f"airflow:{dag}/{RUN.format(hour=22)}/{task}/{index}/{attempt}"


def take(screen: Screen, redis: Server, folder: Path) -> None:
    """Take all screenshots, one after the other."""
    take_connection(screen, folder)
    scene = Scene(redis.url)
    screen.log_in("op")
    screen.open_in_airflow("main")
    for turn in range(TRAFFIC_S):
        scene.work(turn)
        time.sleep(1)
    save(screen, folder, "overview")
    screen.run("location.hash = '#/main/warehouse.backfill'")
    for turn in range(TRAFFIC_S):
        scene.work(turn)
        time.sleep(0.7)
    save(screen, folder, "queue")
    screen.log_in("op", dark=True)
    screen.open_in_airflow("main")
    for turn in range(25):
        scene.work(turn)
        time.sleep(1)
    save(screen, folder, "overview-dark")
    take_telephone(screen, folder)
    screen.open_in_airflow("main", "flights.delays", "dead")
    screen.find("table.dead tbody tr")
    screen.all("table.dead tbody tr[tabindex]")[1].click()
    screen.click("table.dead tbody input")
    screen.run("document.querySelector('.tabs').scrollIntoView()")
    save(screen, folder, "dead-letters-dark")
    screen.log_in("op")
    screen.open_in_airflow("spare")
    screen.shows("No queue yet")
    save(screen, folder, "empty")
    screen.open_in_airflow("main", "flights.delays")
    time.sleep(30)
    save(screen, folder, "leases")
    screen.button("Release").click()
    save(screen, folder, "release")
    screen.click("dialog .plain")
    screen.click(".tab.dead")
    screen.click(".actions .purge")
    screen.press(*"flights")
    save(screen, folder, "purge")
    screen.click("dialog .plain")
    screen.click(".tab.leases")
    time.sleep(5)
    redis.pause()
    screen.shows("Redis does not answer", ".alert")
    save(screen, folder, "redis-down")
    redis.resume()


def take_telephone(screen: Screen, folder: Path) -> None:
    """Take a screenshot of the open page at the width of a phone."""
    size = {"width": 400, "height": 860, "deviceScaleFactor": 2, "mobile": False}
    screen.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    save(screen, folder, "telephone")
    screen.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def take_connection(screen: Screen, folder: Path) -> None:
    """Take a screenshot of a connection's form, and one of the result of its test button."""
    screen.log_in("admin")
    connections = Connections(screen)
    connections.open()
    connections.edit("main")
    screen.driver.save_screenshot(str(folder / "airflow-connection.png"))
    connections.open()
    connections.test("main", "Test Connection Successful")
    screen.driver.save_screenshot(str(folder / "airflow-connection-test.png"))


def save(screen: Screen, folder: Path, name: str) -> None:
    time.sleep(0.6)  # animations have ended
    screen.driver.save_screenshot(str(folder / f"airflow-queues-{name}.png"))


def main() -> None:
    """Start everything, take the screenshots, stop everything."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as ends:
        redis = start_server("7.0")
        ends.callback(redis.stop)
        place = {"conn_type": "redis_queue", "host": "127.0.0.1", "port": redis.port}
        airflow = ApiServer({"main": place, "spare": {**place, "extra": '{"db": 1}'}})
        ends.callback(airflow.stop)
        browser: Chrome = chromium.start(1440, 960)
        ends.callback(browser.quit)
        take(Screen(browser, airflow), redis, folder)


if __name__ == "__main__":
    main()
