"""The drills in a terminal, with commands that the documentation names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drills.conftest import Terminal
from tests.drills.scene import TIMEOUTS, Scene
from tests.faults.patience import eventually
from tests.servers import start_server
from tests.servers.process import Server

FIELD = re.compile(r"\s{2,}")


def lease_of(text: str) -> str:
    """Return the id of the first lease that `rmq leases` shows."""
    return FIELD.split(text.splitlines()[2])[0]


def test_a_message_that_kills_its_worker_becomes_a_dead_letter_with_one_command(scene: Scene, rmq: Terminal) -> None:
    message = scene.poison()
    drill = rmq.drills("(a) a message kills its worker again and again")
    with drill.doing("find"):
        held = rmq("leases work")
        assert "fatal" in held
    with drill.doing("explain"):
        assert rmq(f"why work {message}").count("expired") == 2
    with drill.doing("repair"):
        assert "1 became dead letters" in rmq(f"expire work {lease_of(held)} --yes --set max_deliveries=3")
    scene.drains(2)
    assert scene.numbers() == (0, 0, 0, 1)


def test_the_messages_of_a_worker_that_is_gone_are_ready_at_once(scene: Scene, rmq: Terminal) -> None:
    scene.publish(*"abcde")
    gone = scene.worker("hang", "pod-3", lease=3600)
    scene.says(gone, "held")
    gone.kill()
    drill = rmq.drills("(b) a worker is gone, its lease has an hour to go")
    with drill.doing("find"):
        held = rmq("leases work")
    with drill.doing("explain"):
        assert "pod-3" in held
        assert "h" in held
    with drill.doing("repair"):
        assert "released 5 messages" in rmq(f"release work '{lease_of(held)}' --owner pod-3")
    scene.drains(5)


def test_a_paused_queue_is_resumed(scene: Scene, rmq: Terminal) -> None:
    scene.publish(*"abc")
    rmq("pause work")
    assert scene.worked("ack") == 0
    drill = rmq.drills("(c) does not drain: paused")
    with drill.doing("find"):
        assert "yes" in rmq("stats work")
    with drill.doing("explain"):
        assert "pause" in rmq("history work")
    with drill.doing("repair"):
        rmq("resume work")
    scene.drains(3)


def test_messages_that_are_tried_apart_are_all_worked_off_after_the_fix(scene: Scene, rmq: Terminal) -> None:
    scene.publish("bad", *"abcdefg")
    for _ in range(2):
        assert scene.worked("whole") == 1
    drill = rmq.drills("(c) does not drain: shortened claims")
    with drill.doing("find"):
        assert FIELD.split(rmq("stats work").splitlines()[2])[-1] == "8"
    with drill.doing("explain"):
        assert "a bad row in the batch" in rmq("peek work --state isolated --count 1")
    with drill.doing("repair"):
        rmq("pause work")
        rmq("resume work")  # between the two the fixed consumer is deployed
    scene.drains(8)


def test_the_messages_of_a_worker_that_hangs_are_taken_from_it(scene: Scene, rmq: Terminal) -> None:
    scene.publish(*"abcde")
    hung = scene.worker("hang", "pod-4", lease=3600)
    scene.says(hung, "held")
    drill = rmq.drills("(c) does not drain: held leases")
    with drill.doing("find"):
        held = rmq("leases work")
    with drill.doing("explain"):
        assert "pod-4" in held
        assert hung.poll() is None
    with drill.doing("repair"):
        rmq(f"release work '{lease_of(held)}'")
    scene.drains(5)


def test_a_queue_that_nobody_consumes_is_worked_off(scene: Scene, rmq: Terminal) -> None:
    scene.publish(*"abc")
    drill = rmq.drills("(c) does not drain: no consumers")
    with drill.doing("find"):
        assert "3" in rmq("stats work")
    with drill.doing("explain"):
        shown = rmq("history work")
        (claimed,) = (line.split() for line in shown.splitlines() if line.startswith("claimed"))
        assert claimed[1:4] == ["0", "0", "0"]
    with drill.doing("repair"):
        assert rmq("consume work").splitlines()[:3] == [*"abc"]
    assert scene.numbers() == (0, 0, 0, 0)


def test_a_full_server_takes_messages_again_and_what_filled_it_is_kept_in_a_file(
    scene: Scene, rmq: Terminal, tmp_path: Path
) -> None:
    with scene.server.client() as client:
        scene.fill(client)
    drill = rmq.drills("(c) does not drain: a full server")
    with drill.doing("find"):
        assert "has reached `maxmemory`" in rmq("publish work new", code=4)
    with drill.doing("explain"):
        assert "publishing is refused at the limit" in rmq("doctor", code=1)
        assert "5,000" in rmq("stats")
    with drill.doing("repair"):
        kept = rmq("export work --live --state dead")
        rmq("dlq purge work --yes")
        assert "published 1" in rmq("publish work new")
    (tmp_path / "dead.ndjson").write_text(kept)
    assert kept.count('"state":"dead"') == 5000
    assert scene.numbers() == (1, 0, 0, 0)


@pytest.mark.parametrize("twice", [True, False], ids=["twice", "once"])
def test_the_journal_proves_how_often_a_message_was_processed_and_by_whom(
    scene: Scene, rmq: Terminal, *, twice: bool
) -> None:
    (message,) = scene.publish("invoice 17")
    if twice:
        late = scene.worker("late", "pod-1", lease=0.05)
        scene.says(late, "did")
    eventually(lambda: scene.worked("ack", "pod-2") == 0 and scene.numbers() == (0, 0, 0, 0))
    if twice:
        late.communicate("go on\n")
    drill = rmq.drills(f"(d) was it processed twice? {'twice' if twice else 'once'}")
    with drill.doing("find"):
        told = rmq(f"why work {message} --json")
    timeline = json.loads(told.splitlines()[0])
    with drill.doing("explain"):
        claimed = [step["who"] for step in timeline["steps"] if step["what"] == "claimed"]
        assert claimed == (["pod-1", "pod-2"] if twice else ["pod-2"])
        assert [step["who"] for step in timeline["steps"] if step["what"] == "acked"] == ["pod-2"]
    with drill.doing("repair"):
        pass  # there is nothing to repair in the queue: it is empty, and the message was acked once
    assert (timeline["claims"], timeline["acks"]) == (2 if twice else 1, 1)


def test_only_the_dead_letters_of_one_cause_are_redriven(scene: Scene, rmq: Terminal, *, full_faults: bool) -> None:
    many = 40_000 if full_faults else 4_000
    scene.bury(many)
    drill = rmq.drills(f"(e) {many:,} dead letters of three causes")
    with drill.doing("find"):
        assert f"{many:,}" in rmq("stats work")
    with drill.doing("explain"):
        assert TIMEOUTS in rmq("dlq reasons work")
    with drill.doing("repair"):
        assert f"redriven {many * 4 // 10:,}" in rmq(f"dlq redrive work --group '{TIMEOUTS}'")
    assert scene.numbers() == (many * 4 // 10, 0, 0, many * 6 // 10)
    scene.drains(many * 4 // 10)


def test_what_a_bad_deploy_nacked_is_redriven_after_the_fix(scene: Scene, rmq: Terminal) -> None:
    scene.publish(*(f"item {number}" for number in range(150)))
    assert scene.worked("nack") == 0
    scene.publish("new")
    drill = rmq.drills("(f) a bad deploy nacks everything")
    with drill.doing("find"):
        assert "150" in rmq("stats work")
    with drill.doing("explain"):
        assert "release #" in rmq("dlq reasons work")
    with drill.doing("repair"):
        rmq("pause work")
        assert "redriven 150" in rmq("dlq redrive work --group \"KeyError: 'carrier' (release #)\"")
        rmq("resume work")
    scene.drains(151)
    assert scene.numbers() == (0, 0, 0, 0)


@pytest.fixture
def replica(scene: Scene) -> Iterator[Server]:
    """A replica that has everything so far."""
    server = start_server("7.0")
    with scene.server.client() as primary, server.client() as client:
        primary.config_set("repl-diskless-sync-delay", 0)
        client.replicaof("127.0.0.1", str(scene.server.port))
        eventually(lambda: client.info("replication")["master_link_status"] == "up")
    yield server
    server.stop()


def test_what_a_failover_lost_is_known_by_its_ids_and_comes_back_from_the_old_primary(
    scene: Scene, rmq: Terminal, replica: Server, tmp_path: Path
) -> None:
    known = scene.publish("a", "b")
    with scene.server.client() as primary, replica.client() as client:
        eventually(lambda: primary.wait(1, 100) == 1 and client.exists("rmq:queues"))
        primary.execute_command("WAIT", 1, 5000)
        client.replicaof("127.0.0.1", "1")  # nothing more is replicated
        lost = scene.publish("c", "d", "e")
        client.replicaof("NO", "ONE")
    drill, new = rmq.drills("(g) Redis failed over: what was lost?"), replica.url
    with drill.doing("find"):
        assert "primary with 0 replicas" in rmq("doctor work", url=new, code=1)
    with drill.doing("explain"):
        assert "gone; delivered never, acked never" in rmq(f"why work {lost[0]}", url=new)
        assert "ready; delivered never" in rmq(f"why work {known[0]}", url=new)
        assert "ready; delivered never" in rmq(f"why work {lost[0]}")  # the old primary still answers
    file = tmp_path / "lost.ndjson"
    with drill.doing("repair"):
        ids = " ".join(f"--id {each}" for each in lost)
        file.write_text(rmq(f"export work --live {ids}").rpartition("exported")[0])
        assert "imported 3" in rmq(f"import work {file}", url=new)
    there = Scene(replica)
    there.drains(5)
    there.end()
