"""The drills in the console of `rmq serve`, in a browser. Each begins at the overview of all queues."""

from __future__ import annotations

import pytest

from tests.drills.conftest import Mouse
from tests.drills.scene import TIMEOUTS, Scene
from tests.faults.patience import eventually

pytestmark = pytest.mark.slow


@pytest.mark.nightly(
    "drills/test_terminal.py::test_a_message_that_kills_its_worker_becomes_a_dead_letter_with_one_command"
)
def test_a_message_that_kills_its_worker_becomes_a_dead_letter_with_two_clicks(scene: Scene, mouse: Mouse) -> None:
    scene.poison()
    drill = mouse.drills("(a) a message kills its worker again and again")
    with drill.doing("find"):
        mouse.open()
        mouse.click("a.name")
    with drill.doing("explain"):
        mouse.click("tr.lease .held")
        mouse.click(".of-lease table.leased tbody tr")
        mouse.shows("lease expired", ".of-lease")
    with drill.doing("repair"):
        mouse.push("Expire")
        mouse.confirm("1 dead letter now")
    scene.drains(2)
    assert scene.numbers() == (0, 0, 0, 1)


@pytest.mark.nightly("drills/test_terminal.py::test_the_messages_of_a_worker_that_is_gone_are_ready_at_once")
@pytest.mark.parametrize("gone", [True, False], ids=["gone", "hangs"])
def test_the_messages_of_a_worker_that_is_gone_or_hangs_are_released(scene: Scene, mouse: Mouse, *, gone: bool) -> None:
    scene.publish(*"abcde")
    holder = scene.worker("hang", "pod-3", lease=3600)
    scene.says(holder, "held")
    if gone:
        holder.kill()
    name = "(b) a worker is gone, its lease has an hour to go" if gone else "(c) does not drain: held leases"
    drill = mouse.drills(name)
    with drill.doing("find"):
        mouse.open()
        mouse.click("a.name")
    with drill.doing("explain"):
        mouse.shows("pod-3", "table.leases")
    with drill.doing("repair"):
        mouse.push("Release")
        mouse.confirm("5 messages are ready again")
    scene.drains(5)


@pytest.mark.nightly("drills/test_terminal.py::test_a_paused_queue_is_resumed")
def test_a_paused_queue_is_resumed(scene: Scene, mouse: Mouse) -> None:
    scene.publish(*"abc")
    with scene.queue() as queue:
        queue.admin.pause()
    assert scene.worked("ack") == 0
    drill = mouse.drills("(c) does not drain: paused")
    with drill.doing("find"):
        mouse.open()
        mouse.shows("paused", "tbody")
    with drill.doing("explain"):
        mouse.click("a.name")
        mouse.click("a.tab.past")
        mouse.shows("pause", ".marks-list")
    with drill.doing("repair"):
        mouse.push("Resume")
        mouse.confirm("work is resumed")
    scene.drains(3)


@pytest.mark.nightly("drills/test_terminal.py::test_messages_that_are_tried_apart_are_all_worked_off_after_the_fix")
def test_messages_that_are_tried_apart_are_all_worked_off_after_the_fix(scene: Scene, mouse: Mouse) -> None:
    scene.publish("bad", *"abcdefg")
    for _ in range(2):
        assert scene.worked("whole") == 1
    drill = mouse.drills("(c) does not drain: shortened claims")
    with drill.doing("find"):
        mouse.open()
        mouse.shows("8 isolated", "tbody")
    with drill.doing("explain"):
        mouse.click("a.name")
        mouse.click("a.isolated-list")
        mouse.click("table.isolated tbody tr")
        mouse.shows("a bad row in the batch", ".details")
    with drill.doing("repair"):
        mouse.push("Pause")
        mouse.confirm("work is paused")
        mouse.push("Resume")  # between the two the fixed consumer is deployed
        mouse.confirm("work is resumed")
    scene.drains(8)


@pytest.mark.nightly("drills/test_terminal.py::test_the_journal_proves_how_often_a_message_was_processed_and_by_whom")
def test_the_console_tells_how_often_a_message_was_processed_and_by_whom(scene: Scene, mouse: Mouse) -> None:
    (message,) = scene.publish("invoice 17")
    late = scene.worker("late", "pod-1", lease=0.05)
    scene.says(late, "did")
    eventually(lambda: scene.worked("ack", "pod-2") == 0 and scene.numbers() == (0, 0, 0, 0))
    drill = mouse.drills("(d) was it processed twice? twice")
    with drill.doing("find"):
        mouse.open("redis", "work", "why", message)  # the link that a publisher can log
    with drill.doing("explain"):
        mouse.shows("delivered 2 times, acked once", ".verdict")
        mouse.shows("pod-1", ".steps")
        mouse.shows("pod-2", ".steps")
    with drill.doing("repair"):
        pass  # there is nothing to repair in the queue
    assert scene.numbers() == (0, 0, 0, 0)


@pytest.mark.nightly("drills/test_terminal.py::test_only_the_dead_letters_of_one_cause_are_redriven")
def test_only_the_dead_letters_of_one_cause_are_redriven(scene: Scene, mouse: Mouse, *, full_faults: bool) -> None:
    many = 40_000 if full_faults else 4_000
    scene.bury(many)
    drill = mouse.drills(f"(e) {many:,} dead letters of three causes")
    with drill.doing("find"):
        mouse.open()
        mouse.click("a.name")
    with drill.doing("explain"):
        mouse.click("nav.tabs a:nth-of-type(4)")
        mouse.shows(TIMEOUTS, "table.reasons tbody tr")
    with drill.doing("repair"):
        mouse.click("table.reasons tbody tr .deeds button")
        mouse.confirm(f"{many * 4 // 10:,} dead letters are ready again")
    assert scene.numbers() == (many * 4 // 10, 0, 0, many * 6 // 10)


@pytest.mark.nightly("drills/test_terminal.py::test_what_a_bad_deploy_nacked_is_redriven_after_the_fix")
def test_what_a_bad_deploy_nacked_is_redriven_after_the_fix(scene: Scene, mouse: Mouse) -> None:
    scene.publish(*(f"item {number}" for number in range(150)))
    assert scene.worked("nack") == 0
    scene.publish("new")
    drill = mouse.drills("(f) a bad deploy nacks everything")
    with drill.doing("find"):
        mouse.open()
        mouse.click("a.name")
    with drill.doing("explain"):
        mouse.click("nav.tabs a:nth-of-type(4)")
        mouse.shows("release #", "table.reasons tbody tr")
    with drill.doing("repair"):
        mouse.push("Pause")
        mouse.confirm("work is paused")
        mouse.click("table.reasons tbody tr .deeds button")
        mouse.confirm("150 dead letters are ready again")
        mouse.push("Resume")
        mouse.confirm("work is resumed")
    scene.drains(151)


@pytest.mark.nightly("drills/test_terminal.py::test_a_queue_that_nobody_consumes_is_worked_off")
def test_a_queue_that_nobody_consumes_is_told_by_its_leases_and_its_history(scene: Scene, mouse: Mouse) -> None:
    scene.publish(*"abc")
    drill = mouse.drills("(c) does not drain: no consumers")
    with drill.doing("find"):
        mouse.open()
        mouse.click("a.name")
        mouse.shows("No leases", "main")
    with drill.doing("explain"):
        mouse.click("a.tab.past")
        mouse.click(".numbers summary")
        mouse.shows("Claimed", ".numbers thead")
    with drill.doing("repair"):
        assert scene.worked("ack") == 0  # a browser starts no consumers
    assert scene.numbers() == (0, 0, 0, 0)


@pytest.mark.nightly(
    "drills/test_terminal.py::test_a_full_server_takes_messages_again_and_what_filled_it_is_kept_in_a_file"
)
def test_a_full_server_takes_messages_again_when_its_dead_letters_are_purged(scene: Scene, mouse: Mouse) -> None:
    with scene.server.client() as client:
        scene.fill(client)
    drill = mouse.drills("(c) does not drain: a full server")
    with drill.doing("find"):
        mouse.open()
        mouse.shows("5,000", "tbody")
    with drill.doing("explain"):
        mouse.click("a.name")  # that the memory is used up is told by `rmq doctor` alone
        mouse.click("nav.tabs a:nth-of-type(4)")
    with drill.doing("repair"):
        mouse.click("button.purge")
        mouse.type("work", "dialog input")
        mouse.confirm("deleted")
    assert scene.publish("new")
    assert scene.numbers() == (1, 0, 0, 0)
