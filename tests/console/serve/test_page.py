"""The console of `rmq serve` in a real browser: logging in, looking, changing, and hostile text in every field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from rmq_console.serve.access import make
from rmq_console.serve.app import PLACE
from rmq_core import LeasedConfig, LeasedQueue
from tests.airflow.browser import chromium
from tests.console.serve.conftest import serving
from tests.console.serve.screen import ServedScreen
from tests.servers.process import Server

pytestmark = pytest.mark.slow

OWNER = "airflow:etl/manual__2026-11-20T22:00:00+00:00/load/-1/2"
RUN = "0b8c7e52-3c4c-4b6e-9f0e-1a2b3c4d5e6f"
LINKS = ("--link", "airflow=https://airflow.test", "--link", "dagster=https://dagster.test")
HOSTILE = (
    "<img src=x onerror=\"document.title='hacked'\">",
    "<script>document.title='hacked'</script>",
    '"><svg onload="document.title=\'hacked\'">',
    "javascript:document.title='hacked'",
    "' autofocus onfocus='document.title=`hacked`",
)


@pytest.fixture(scope="module")
def driver() -> Iterator[Chrome]:
    browser = chromium.start()
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server has its tokens and its audit log."""
    return tmp_path_factory.mktemp("serve")


@pytest.fixture(scope="module")
def tokens(folder: Path) -> dict[str, str]:
    """A token of each role."""
    made = {role: make(role, f"{role}@example.org") for role in ("numbers", "view", "change")}
    (folder / "tokens").write_text("\n".join(line for _, line in made.values()))
    return {role: token for role, (token, _) in made.items()}


@pytest.fixture(scope="module")
def url(shared_redis: Server, tokens: dict[str, str], folder: Path) -> Iterator[str]:
    """A server with these tokens."""
    options = ("--tokens", str(folder / "tokens"), "--allow-changes", "--audit", str(folder / "audit"), *LINKS)
    with serving(shared_redis.url, *options) as address:
        yield address


@pytest.fixture
def screen(driver: Chrome, url: str) -> Iterator[ServedScreen]:
    """The console with tokens; the test fails on every error that the browser reports."""
    shown = ServedScreen(driver, url)
    driver.get("about:blank")
    shown.size(1400, 900)
    shown.troubles()
    yield shown
    assert shown.troubles() == []


def test_a_user_logs_in_with_a_token_and_out_again(
    screen: ServedScreen, queue: LeasedQueue, tokens: dict[str, str]
) -> None:
    queue.publish("x")
    screen.visit()
    screen.find("#token").send_keys("rmq_wrong\n")
    screen.shows("This token is not valid", "#trouble")
    screen.find("#token").send_keys(tokens["view"], "\n")
    screen.shows("work", "tbody")
    assert tokens["view"] not in screen.run("return document.cookie + document.documentElement.outerHTML")
    screen.button("Log out").click()
    screen.find("#token")
    screen.visit()
    screen.find("#token")


def test_the_holders_of_leases_are_linked_to_their_orchestrators(
    screen: ServedScreen, queue: LeasedQueue, tokens: dict[str, str]
) -> None:
    queue.publish_many([*"abc"])
    for owner in (OWNER, RUN, "worker-7"):
        queue.claim(owner=owner, lease=300)
    screen.log_in(tokens["view"])
    screen.shows("work", "tbody")
    screen.open(PLACE, "work")
    screen.shows("worker-7", "table.leases")
    links = screen.run("return [...document.querySelectorAll('table.leases a')].map((each) => each.href)")
    assert links == [
        "https://airflow.test/dags/etl/runs/manual__2026-11-20T22%3A00%3A00%2B00%3A00/tasks/load?try_number=2",
        f"https://dagster.test/runs/{RUN}",
    ]


def test_a_user_with_the_role_change_redrives_and_the_audit_log_names_him(
    screen: ServedScreen, queue: LeasedQueue, tokens: dict[str, str], folder: Path
) -> None:
    queue.publish("x")
    queue.nack(queue.claim(), reason="bad")
    screen.log_in(tokens["change"])
    screen.shows("work", "tbody")
    screen.open(PLACE, "work", "dead")
    screen.button("Redrive all").click()
    screen.click("dialog .primary")
    screen.shows("1 dead letter is ready again", "#toasts")
    assert queue.stats().ready == 1
    assert (folder / "audit").read_text().count('"user": "change@example.org"') == 2


@pytest.mark.parametrize(("role", "sees"), [("view", True), ("numbers", False)])
def test_who_may_not_change_sees_no_buttons_and_who_may_not_read_sees_no_messages(
    screen: ServedScreen, queue: LeasedQueue, tokens: dict[str, str], role: str, *, sees: bool
) -> None:
    queue.publish_many(["a secret", "another"])
    queue.nack(queue.claim(), reason="bad")
    queue.claim(owner="worker-7", lease=300)
    screen.log_in(tokens[role])
    screen.shows("work", "tbody")
    for tab, text in (("dead", "a secret"), ("leases", "worker-7")):
        screen.open(PLACE, "work", tab)
        if tab == "dead" and not sees:
            screen.shows("You may not see messages", "main")
        else:
            screen.shows(text, "main")
        shown = {each.text for each in screen.all("main button") if each.is_displayed()}
        assert shown <= {"Refresh", "Export"}  # which change nothing
        assert sees or "a secret" not in screen.text("main")


@pytest.mark.nightly("console/browser/test_operating.py::test_hostile_text_is_shown_as_text")
def test_no_text_of_a_message_a_lease_or_a_queue_becomes_part_of_the_page(
    screen: ServedScreen, redis_server: Server, tokens: dict[str, str]
) -> None:
    for text in HOSTILE:
        with LeasedQueue(redis_server.url, text, LeasedConfig(max_deliveries=1)) as hostile:
            for number in range(3):
                hostile.publish(f"{text}{number}", headers={text: text}, dedup_key=f"{text}{number}")
            hostile.publish(f"{text}later", delay=600)
            hostile.nack(hostile.claim(owner=text), reason=text)
            hostile.claim(owner=text, lease_id=text, lease=600)
            hostile.claim(owner=f"airflow:{text.replace('/', '')}/{text}/{text.replace('/', '')}/-1/1", lease=600)
            hostile.publish(text, headers={text: text})
            hostile.publish({text: [text]})
    screen.log_in(tokens["change"])
    screen.shows(HOSTILE[0], "tbody")
    for text in HOSTILE:
        for tab in ("leases", "ready", "delayed", "dead"):
            screen.open(PLACE, text, tab)
            screen.shows(text, "h1")
            screen.shows(text, "main tbody")
            if tab != "leases":
                screen.click(f"table.{tab} tbody tr")
                screen.shows(text, ".details")
            if tab == "dead":
                screen.button("Purge").click()
                screen.shows(text, "dialog")
                screen.button("Cancel").click()
    assert screen.driver.title == "Queues"
    assert screen.all("main img, main script, [onload], [onerror], [onfocus], [autofocus], a[href^=javascript]") == []
