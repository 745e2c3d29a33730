"""What an operator does in the console: find, explain and repair, with a confirmation of each change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys

from rmq_console import searches
from rmq_core import open_queue
from rmq_core.admin.verbs import VERBS, Argument
from tests.console.browser.served import ConsoleScreen, ConsoleServer
from tests.console.conftest import bury, fill_dead
from tests.core.leases import crash
from tests.servers.process import Server

pytestmark = pytest.mark.slow

Opened = Callable[..., Any]
TURNED = "\u202e"  # the letters behind it are shown from right to left
HOSTILE = "<img src=x onerror=\"document.title='hacked'\"><b>x</b>"
TITLES = "return [...document.querySelectorAll('[title]')].map((each) => each.title)"
TIMEOUTS = [f"TimeoutError: no answer of host-{number}" for number in range(3)]


def test_only_the_dead_letters_of_one_cause_are_redriven(
    screen: ConsoleScreen, opened: Opened, console: ConsoleServer
) -> None:
    queue = opened("work", max_deliveries=1)
    bury(queue, *TIMEOUTS, "bad row")
    screen.open("work", "dead")
    screen.shows("TimeoutError: no answer of host-#", ".reasons")
    screen.click(".reasons tbody tr .deeds button")
    screen.shows("Redrive 3 dead letters?", "dialog")
    screen.click("dialog .primary")
    screen.shows("3 dead letters are ready again", "#toasts")
    assert [letter.history[-1].reason for letter in queue.admin.dead_letters()] == ["bad row"]
    assert console.audit.lines[-1]["outcome"] == "done: dead letters made ready again: 3"


def test_a_group_is_shown_by_a_search_and_purged_after_its_name_is_typed(screen: ConsoleScreen, opened: Opened) -> None:
    queue = opened("work", max_deliveries=1)
    bury(queue, *TIMEOUTS, "bad row")
    screen.open("work", "dead")
    screen.click(".reasons a.button")
    screen.shows("3 messages found; 4 of 4 messages looked at", ".found")
    assert len(screen.all("table.dead tbody tr[tabindex]")) == 3
    screen.button("Purge").click()
    screen.shows("TimeoutError: no answer of host-#", "dialog .condition")
    assert not screen.find("dialog .danger").is_enabled()
    screen.press(*"work", Keys.ENTER)
    screen.shows("3 dead letters deleted", "#toasts")
    assert queue.stats().dead == 1


def test_the_address_of_a_lease_shows_this_lease_and_later_its_ack(screen: ConsoleScreen, opened: Opened) -> None:
    queue = opened("work")
    queue.publish_many([*"abc"])
    lease = queue.claim(owner="worker-1", lease_id="run/load", lease=300, max_messages=2)
    queue.claim(owner="worker-2", lease=300)
    screen.open("work", "leases", "run/load")
    screen.shows("worker-1", "table.leases")
    assert "worker-2" not in screen.text("main")
    queue.ack(lease)
    screen.shows("This lease was acked", "main")
    screen.shows("2 messages were acked", "main")
    screen.click(".panel a.button")
    screen.shows("worker-2", "table.leases")


def test_all_leases_of_an_owner_that_hangs_are_released_with_one_click(
    screen: ConsoleScreen, opened: Opened, console: ConsoleServer
) -> None:
    queue = opened("work")
    queue.publish_many([str(number) for number in range(10)])
    for _ in range(3):
        queue.claim(owner="etl-7/4821", lease=300, max_messages=2)
    queue.claim(owner="etl-8/77", lease=300)
    queue._engine.look_at = 0.0
    queue.publish("x")  # a second later, as this is what records the publisher
    screen.open("work", "leases")
    screen.shows("6 messages in 3 leases on this page", ".owner-line")
    screen.shows("publisher", "section.clients")
    screen.click(".owner-line .deeds button")
    screen.shows("Release all leases of etl-7/4821?", "dialog")
    assert screen.all("dialog input") == []  # the owner is known
    screen.click("dialog .danger")
    screen.shows("Released 6 messages of work that etl-7/4821 held", "#toasts")
    assert [lease.owner for lease in queue.admin.leases()] == ["etl-8/77"]
    assert console.audit.lines[-1]["outcome"] == "done: messages made ready again: 6"


def test_a_dead_letter_is_edited_and_retried(screen: ConsoleScreen, opened: Opened) -> None:
    queue = opened("work", max_deliveries=1)
    (letter,) = bury(queue, "bad", payload={"path": "wrong"})
    screen.open("work", "dead")
    screen.click("table.dead tbody tr")
    screen.button("Edit and retry").click()
    text = screen.find("dialog textarea")
    assert not screen.find("dialog .primary").is_enabled()
    text.clear()
    text.send_keys('{"path":')
    screen.shows("This is not JSON", "dialog .problem")
    text.send_keys('"right"}')
    screen.click("dialog .primary")
    screen.shows("ready again, with the changes", "#toasts")
    message = queue.claim().message
    assert (message.id, message.payload) == (letter, {"path": "right"})


def test_a_queue_is_paused_and_resumed_and_both_are_marked_in_its_history(
    screen: ConsoleScreen, opened: Opened
) -> None:
    queue = opened("work")
    queue.publish("x")
    screen.open("work", "history")
    screen.click(".heading .deeds button")
    screen.shows("Pause", "dialog h2")
    screen.press(*"deploy 41 fails", Keys.ENTER)  # a space presses no button
    screen.shows("paused by changer (console): deploy 41 fails", ".note.pause")
    screen.click(".heading .deeds button")
    screen.shows("Resume", "dialog h2")
    screen.click("dialog .primary")
    screen.shows("work is resumed", "#toasts")
    screen.button("Mark").click()
    screen.find("dialog input").send_keys(HOSTILE)
    screen.click("dialog .primary")
    screen.shows("<img src=x", ".marks-list")
    assert screen.text(".marks-list").count("by changer (console)") == 3
    assert len(screen.all(".chart.past")) == 6
    assert len(screen.find(".chart.past").find_elements("css selector", ".mark-line")) == 3
    screen.click(".numbers summary")
    screen.shows("Published", ".numbers thead")


def test_the_messages_of_a_paused_queue_are_moved_to_another(screen: ConsoleScreen, opened: Opened) -> None:
    queue = opened("work")
    queue.publish_many([*"abc"])
    queue.claim(lease=3600)
    screen.open("work", "history")
    screen.button("Pause")
    assert not [each for each in screen.all("button") if "Move" in each.text]
    queue.admin.pause()
    screen.button("Move").click()
    screen.shows("Fill in “Target”", "dialog .problem")
    screen.press(*"work", Keys.ENTER)
    screen.shows("target must be another queue than 'work'", "#toasts")
    screen.button("Move").click()
    screen.press(*"aside", Keys.ENTER)
    screen.shows("Moved 2 messages to aside; 1 message held by consumers stays", "#toasts")
    assert (opened("aside").stats().ready, queue.stats().ready) == (2, 0)


def test_settings_are_stored_with_a_queue_and_changed(screen: ConsoleScreen, opened: Opened) -> None:
    queue = opened("work")
    queue.publish("x")
    screen.open("work", "ready")
    screen.button("Settings").send_keys(Keys.ENTER)
    screen.find("dialog input").send_keys("max_deliveries=many", Keys.ENTER)
    screen.shows("max_deliveries must be a whole number", "#toasts")
    screen.button("Settings").send_keys(Keys.ENTER)
    screen.find("dialog input").send_keys("max_deliveries=3, overflow=block 5, max_ready=9", Keys.ENTER)
    screen.shows("work stores max_deliveries=3, max_ready=9, overflow=block 5", "#toasts")
    screen.shows("Stored with the queue: max_deliveries=3, max_ready=9, overflow=block 5", "main .settings")
    screen.button("Settings").send_keys(Keys.ENTER)
    assert screen.find("dialog input").get_attribute("value") == "max_deliveries=3, max_ready=9, overflow=block 5"
    screen.all("dialog input")[1].send_keys("overflow, max_ready")
    screen.find("dialog input").clear()
    screen.click("dialog .primary")
    screen.shows("stores max_deliveries=3", "#toasts")
    assert queue.admin.settings().stored == {"max_deliveries": 3}


def test_a_delayed_message_is_run_now_and_a_ready_one_is_removed(screen: ConsoleScreen, opened: Opened) -> None:
    queue = opened("work")
    queue.publish("later", delay=3600, dedup_key="order 7")
    screen.open("work", "delayed")
    screen.click("table.delayed tbody tr")
    screen.button("Run now").click()
    screen.click("dialog .primary")
    screen.shows("1 message of work ready now", "#toasts")
    screen.click(".tab.ready")
    screen.click("table.ready tbody tr")
    screen.button("Remove").click()
    screen.shows("Dedup key (optional)", "dialog label")
    screen.find("dialog input").send_keys("order 7", Keys.ENTER)
    screen.shows("Removed 1 message of work", "#toasts")
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)
    assert queue.publish("again", dedup_key="order 7").accepted


def test_the_page_of_a_queue_begins_with_why_it_needs_attention(screen: ConsoleScreen, opened: Opened) -> None:
    queue = opened("work", max_deliveries=1)
    queue.publish("bad")
    queue.nack(queue.claim())
    screen.open("work", "ready")
    screen.shows("dead letter", ".attention .dying")


def test_the_history_of_a_time_is_shown_and_one_without_any_says_so(screen: ConsoleScreen, opened: Opened) -> None:
    queue = opened("work")
    queue.publish("x")
    queue.admin.mark("deployed 1.4")
    screen.open("work", "history")
    screen.button("From … to").click()
    screen.shows("as of", ".as-of")
    set_to = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))"
    begin, end = screen.all(".range input")
    screen.run(set_to, end, "2039-01-01T00:00")
    screen.shows("deployed 1.4", ".marks-list")
    screen.run(set_to, begin, "2039-01-02T00:00")
    screen.shows("it must end after it begins", ".empty")


def test_a_message_that_is_leased_is_made_a_dead_letter(screen: ConsoleScreen, opened: Opened) -> None:
    queue = opened("work")
    queue.publish("killer")
    queue.claim(owner="worker", lease=3600)
    screen.open("work", "leases")
    screen.click("tr.lease")
    screen.click("table.messages.leased tbody tr")
    screen.button("Dead-letter").click()
    screen.shows("Reason (optional)", "dialog label")
    screen.find("dialog input").send_keys("kills", Keys.ENTER)
    screen.shows("Moved 1 message of work to the dead letters", "#toasts")
    assert [each.history[-1].reason for each in queue.admin.dead_letters()] == ["kills"]


def test_a_crash_loop_leads_with_one_click_to_the_message_that_kills_its_workers(
    screen: ConsoleScreen, opened: Opened
) -> None:
    queue = opened("work")
    killer = crash(queue, 2)
    queue.publish("innocent")
    screen.open("work", "history")
    screen.shows(f"a message may be killing its workers · {killer} expired 2 times", ".attention .crashing")
    screen.click(".attention .crashing a")
    screen.button("Dead-letter").click()
    screen.find("dialog input").send_keys("kills", Keys.ENTER)
    screen.shows("Moved 1 message of work to the dead letters", "#toasts")
    assert [each.id for each in queue.admin.dead_letters()] == [killer]


def test_a_verb_is_confirmed_only_with_what_it_takes(
    screen: ConsoleScreen, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    takes = (Argument("target", "Where to.", required=True), Argument("most", "How many.", int, least=1))
    monkeypatch.setitem(VERBS, "pause", VERBS["pause"]._replace(takes=takes, done="{queue} to {target}"))
    opened("work").publish("x")
    screen.open("work", "history")
    screen.click(".heading .deeds button")
    screen.shows("Fill in “Target”", "dialog .problem")
    assert not screen.find("dialog .primary").is_enabled()
    screen.press(*"there", Keys.TAB, *"0", Keys.ENTER)
    screen.shows("Most: ", "dialog .problem")
    screen.press(Keys.BACKSPACE, *"3", Keys.ENTER)
    screen.shows("work to there", "#toasts")


def test_a_long_search_is_stopped(screen: ConsoleScreen, opened: Opened) -> None:
    queue = opened("work")
    queue.publish_many([f"m{number}" for number in range(1000)])
    read, write = "redis.call('LRANGE', KEYS[1], 0, 999)", "redis.call('LPUSH', KEYS[1], unpack(e))"
    queue.client.eval(f"local e = {read} for i = 1, 999 do {write} end", 1, "rmq:{work}:ready")
    screen.open("work", "search", "in=ready&by=text&for=m77")
    screen.shows("of 1,000,000 messages looked at", ".found")
    screen.button("Stop").click()
    screen.shows("then stopped", ".found")


def test_a_search_of_all_states_shows_each_with_the_text_around_the_hit(screen: ConsoleScreen, opened: Opened) -> None:
    queue = opened("work", max_deliveries=1)
    bury(queue, "bad order 4711")
    queue.publish_many([f"{'x' * 400} order {number} {'y' * 400}" for number in (4711, 4712)])
    queue.publish("order 4711 later", delay=3600)
    queue.publish("order 4711 held")
    queue.claim()
    screen.open("work", "search")
    screen.find("input[aria-label=For]").send_keys("order 4711", Keys.ENTER)
    screen.shows("4 messages found; 5 of 5 messages looked at", ".found")
    headings = [each.text for each in screen.all(".searched") if each.is_displayed()]
    assert headings == ["Dead letters", "Ready", "Delayed", "Leased"]
    assert screen.find("table.leased .payload code").text.startswith("…xxxxxxxxxxxxxxxxxxxxxxx order 4711 y")


def test_dead_letters_are_redriven_from_a_search_of_all_states_by_a_part_of_their_reason(
    screen: ConsoleScreen, opened: Opened
) -> None:
    queue = opened("work", max_deliveries=1)
    bury(queue, "ConnectTimeout: warehouse.example.com")
    bury(queue, "KeyError: 'vat'")
    screen.open("work", "search", "in=any&by=reason&for=ConnectTimeout")
    screen.shows("try *ConnectTimeout*", "main")
    screen.open("work", "search", "in=any&by=reason&for=*ConnectTimeout*")
    screen.shows("1 message found", ".found")
    screen.click(".search-line .deeds button")
    screen.click("dialog .primary")
    screen.shows("1 dead letter is ready again", "#toasts")
    assert queue.stats().dead == 1


def test_hostile_text_is_shown_as_text(screen: ConsoleScreen, opened: Opened) -> None:
    queue = opened("work", max_deliveries=1)
    queue.publish(HOSTILE, headers={HOSTILE: HOSTILE})
    queue.nack(queue.claim(owner=HOSTILE), reason=HOSTILE)
    queue.publish(HOSTILE)
    queue.claim(owner=HOSTILE, lease_id=HOSTILE, lease=3600)
    queue.admin.mark(HOSTILE)
    letter = queue.admin.dead_letters()[0].id
    views = (
        ("dead",), ("leases",), ("search", f"in=dead&by=text&for={HOSTILE}"), ("why", letter), ("why", HOSTILE),
        ("history",),
    )  # fmt: skip
    for view in views:
        screen.open("work", *view)
        if view == ("dead",):
            screen.click("table.dead tbody tr")
        if view == ("leases",):
            screen.click("tr.lease")
        screen.shows("<img src=x", "main")
        assert screen.all("main img, main b") == [], view
        assert screen.run("return document.title") != "hacked"


def test_characters_that_turn_the_order_of_others_are_shown_escaped(screen: ConsoleScreen, opened: Opened) -> None:
    queue, text = opened("work", max_deliveries=1), f"{TURNED}gnp.exe"
    queue.publish({"file": text}, headers={"name": text})
    queue.nack(queue.claim(), reason=text)
    letter = queue.admin.dead_letters()[0].id
    for view in (("dead",), ("search", f"in=dead&by=text&for={text}"), ("why", letter)):
        screen.open("work", *view)
        if view != ("why", letter):
            screen.click("table.dead tbody tr")
        screen.shows("\\u202egnp.exe", "main")
        assert TURNED not in screen.run("return document.body.innerText")
        assert not [title for title in screen.run(TITLES) if TURNED in title]
    screen.open("work", "dead")
    screen.click(".reasons tbody tr .deeds button")
    screen.shows("\\u202egnp.exe", "dialog")
    screen.click("dialog .primary")
    screen.shows("1 dead letter is ready again", "#toasts")


def test_a_dialog_counts_what_will_be_moved_and_not_what_was_grouped(
    screen: ConsoleScreen, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "GROUPING_S", 0.0)
    monkeypatch.setattr(searches, "COUNTING_S", 0.0)
    queue = opened("work", max_deliveries=1)
    bury(queue, "bad row 7")
    fill_dead(queue, 2499)
    screen.open("work", "dead")
    screen.shows("Of the newest 1,000 of 2,500 dead letters", ".by-reason")
    screen.click(".reasons tbody tr .deeds button")
    screen.shows("Redrive 2,500 dead letters?", "dialog")
    fill_dead(queue, 1)
    screen.find("dialog .plain").click()
    screen.button("Redrive all").click()
    screen.shows("Redrive 2,501 dead letters?", "dialog")
    screen.click("dialog .primary")
    screen.shows("2,501 dead letters are ready again", "#toasts")


def test_what_a_discipline_cannot_do_is_said(screen: ConsoleScreen, opened: Opened, console_redis: Server) -> None:
    opened("unused")
    with console_redis.client() as client:
        open_queue(client, "events", "streams").publish({"n": 1})
    screen.open("events", "ready")
    screen.button("Pause").click()
    screen.shows("Not possible: the discipline 'streams' has no pause; use ", "#toasts")
    screen.click(".cannot-do summary")
    screen.shows("the discipline 'streams' has no pause", ".cannot-do")


def test_a_viewer_sees_everything_and_can_change_nothing(screen: ConsoleScreen, opened: Opened) -> None:
    queue = opened("work", max_deliveries=1)
    bury(queue, "bad")
    screen.log_in("viewer")
    screen.open("work", "dead")
    screen.click("table.dead tbody tr")
    screen.shows("You may look, but not change anything")
    labels = {button.text for button in screen.all("button") if button.is_displayed()}
    assert labels.isdisjoint({"Pause", "Redrive", "Redrive all", "Purge…", "Retry", "Edit and retry…", "Delete…"})


def test_groups_and_publications_lead_to_their_messages_and_stay_up_to_date(
    screen: ConsoleScreen, opened: Opened
) -> None:
    queue = opened("uploads", max_deliveries=9)
    queue.admin.configure(groups="exclusive", pause_after_dead="20 in 10m")
    for number in range(12):
        queue.publish_many([f"row {number}"] * (number + 1), group=f"tenant-{number}", publication=f"m {number % 3}")
    queue.publish("x", group="<img src=x onerror=document.title='hacked'>")
    screen.open("uploads")
    screen.click(".tab.groups")
    screen.shows("One lease at a time may hold messages of a group", ".policy")
    screen.shows("pauses itself after 20 dead letters in 10m", ".policy")
    assert len(screen.all("table.groups tbody tr")) == 13
    assert len(screen.all("table.publications tbody tr")) == 3
    assert "<img src=x" in screen.text("table.groups")
    assert screen.run("return document.title") != "hacked"
    lease = queue.claim(max_messages=12, groups=["tenant-11"])
    screen.shows("0 of 30", "table.publications")
    queue.ack(lease)
    screen.shows("12 of 30", "table.publications")
    screen.wait(lambda: len(screen.all("table.groups tbody tr")) == 12)
    screen.click("table.groups tbody a")
    screen.shows("11 messages found", ".found")
    screen.shows("tenant-10", "table.messages .badge.group")
    opened("plain").publish("x")
    screen.open("plain")
    screen.shows("Leases", ".tabs")
    assert "Groups" not in screen.text(".tabs")


def test_no_tab_of_a_queue_scrolls_sideways(screen: ConsoleScreen, opened: Opened, driver: Chrome) -> None:
    long = "-".join(["a-name-as-people-choose-them"] * 4)
    queue, spread = opened(long, max_deliveries=4), opened("spread")
    killer = crash(queue, 2)
    queue.admin.configure(groups="fair")
    for delay in (None, 3600):
        queue.publish_many(["row " * 99] * 3, group=long, publication=long, headers={long: long}, delay=delay)
    queue.admin.dead_letter(queue.admin.peek(3)[2].id, reason=long)
    queue.claim(owner=long, lease=3600)
    queue.admin.mark(long)
    spread.admin.configure(shards=3)
    row = "table.messages tbody tr[tabindex]"
    tabs = {
        "leases": "table.leases tbody tr", "ready": row, "delayed": row, "dead": row, "search": row,
        "history": ".marks-list li", "groups": "table.publications tbody tr", "why": ".steps li",
    }  # fmt: skip
    rest = {"search": ["in=any&by=text&for=row"], "why": [killer]}
    paths = [(long, tab, *rest.get(tab, [])) for tab in tabs] + [("spread", "shards")]
    for path in paths:
        screen.open(*path)
        assert len(screen.all(".tab")) == len(tabs), "each is looked at: shards too, but the timeline is no tab"
        screen.find(tabs.get(path[1], "table.shards tbody tr"))
        for width in (1280, 400):
            metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            assert screen.run("return document.documentElement.scrollWidth") <= width, path
