"""The commands that repair: expire, run-now, search, dlq reasons, redrive, purge and edit, export of a selection."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from rmq_core import LeasedConfig, LeasedQueue, NewMessage
from rmq_core.admin.verbs import Verb, offered
from tests.core.leases import eventually

Rmq = Callable[..., Any]
REASONS = ["timeout after 3 s", "no order 7f9c3b1a-8a53-4f0e-9b1e-aabbccddeeff", "timeout after 12.5 s"]


@pytest.fixture
def queue(rmq: Rmq, server_url: str) -> Any:
    del rmq  # which empties the database
    with LeasedQueue(server_url, "orders", LeasedConfig(max_deliveries=1)) as opened:
        yield opened


def killed(queue: LeasedQueue, reasons: list[str] = REASONS) -> list[str]:
    """Make a dead letter of `{"n": <place>}` for each reason; return their ids."""
    ids = queue.publish_many(
        [NewMessage({"n": n}, id=f"id-{n}", headers={"tenant": "ab"[n % 2]}) for n, _ in enumerate(reasons)]
    ).ids
    for reason in reasons:
        lease = queue.claim(owner="worker")
        assert lease is not None
        queue.nack(lease, reason=reason)
    return [str(each) for each in ids]


def test_reasons_are_grouped_and_a_group_selects_its_letters(rmq: Rmq, queue: LeasedQueue) -> None:
    killed(queue)
    groups = rmq("dlq", "reasons", "orders", "--json").records
    assert [(group["count"], group["reason"], group["example"]) for group in groups] == [
        (2, "timeout after # s", "id-2"),
        (1, "no order #", "id-1"),
    ]
    shown = rmq("dlq", "reasons", "orders").out
    assert "timeout after # s" in shown
    assert "ago" in shown
    assert rmq("dlq", "redrive", "orders", "--reason", groups[0]["reason"]).out == "redriven 2 dead letters of orders\n"
    assert [message.payload for message in queue.admin.peek(9)] == [{"n": 0}, {"n": 2}]
    assert rmq("dlq", "reasons", "orders", "--json").records[0]["reason"] == "no order #"
    queue.admin.purge("dead")
    assert rmq("dlq", "reasons", "orders").out == "orders has no dead letters\n"


@pytest.mark.parametrize(
    ("options", "redriven"),
    [
        (["--text", '"n":1'], [1]),
        (["--header", "tenant=a"], [0, 2]),
        (["--id", "id-0", "--id", "id-2", "--id", "unknown"], [0, 2]),
        (["--id", "id-0", "--id", "id-1", "--reason", "timeout*"], [0]),
        (["--reason", "timeout*", "--max", "1"], [0]),
        (["--max", "1"], [0]),
        ([], [0, 1, 2]),
    ],
)
def test_dead_letters_are_redriven_by_conditions(
    rmq: Rmq, queue: LeasedQueue, options: list[str], redriven: list[int]
) -> None:
    killed(queue)
    ran = rmq("dlq", "redrive", "orders", *options, "--json")
    assert ran.records == [{"queue": "orders", "redriven": len(redriven)}]
    assert [message.payload for message in queue.admin.peek(9)] == [{"n": n} for n in redriven]


def test_a_dead_letter_is_edited_and_redriven(rmq: Rmq, queue: LeasedQueue) -> None:
    killed(queue)
    asked = rmq("dlq", "edit", "orders", "id-1", '{"n": 11}')
    assert (asked.code, """payload {"n": 11} instead of {"n": 1}?""" in asked.err) == (2, True)
    ran = rmq("dlq", "edit", "orders", "id-1", '{"n": 11}', "-H", "fixed=yes", "--drop-header", "tenant", "--yes")
    assert (ran.code, ran.out) == (0, "redrove id-1 of orders, edited\n")
    (message,) = queue.admin.peek(9)
    assert (message.id, message.payload, message.headers) == ("id-1", {"n": 11}, {"fixed": "yes"})
    dead = message.history[-1]
    assert (dead.kind, dead.reason) == ("edited", "payload and headers")
    assert f"pid {os.getpid()}" in dead.owner


def test_a_lease_is_expired_after_a_question_that_says_who_holds_it(rmq: Rmq, queue: LeasedQueue) -> None:
    queue.publish_many(["a", "b"])
    held = queue.claim(max_messages=2, lease_id="dag/run", owner="try 1", lease=3599)
    assert held is not None
    asked = rmq("expire", "orders", "dag/run")
    assert asked.code == 2
    assert "Expire the lease 'dag/run', which ends in 59 min" in asked.err
    assert "try 1 holds 2 messages" in asked.err
    assert rmq("expire", "orders", "dag/run", "--owner", "try 2", "--yes").code == 1
    assert queue.stats().leases == 1
    ran = rmq("expire", "orders", "dag/run", "--owner", "try 1", "--reason", "it hung", "--yes", "--json")
    assert ran.records == [{"queue": "orders", "lease": "dag/run", "expired": 2, "dead": 0}]
    assert {message.history[-1].reason for message in queue.admin.peek(9)} == {"it hung"}
    assert "no lease of this id" in rmq("expire", "orders", "dag/run").err


def test_delayed_messages_run_now(rmq: Rmq, queue: LeasedQueue) -> None:
    later = queue.publish("x", delay=3600).id
    assert rmq("run-now", "orders", later).out == "1 message of orders ready now\n"
    again = rmq("run-now", "orders", later, "--json")
    assert (again.code, again.records) == (1, [{"queue": "orders", "ready": 0, "missing": [later]}])
    assert f"not delayed: {later}" in again.err


def test_messages_that_nobody_claimed_are_removed_after_a_question_that_counts_them(
    rmq: Rmq, queue: LeasedQueue
) -> None:
    ready, later = queue.publish("a").id, queue.publish("b", delay=3600).id
    asked = rmq("cancel", "orders", ready, later)
    assert (asked.code, "Remove 2 messages of orders (leased) on redis://" in asked.err) == (2, True)
    assert queue.stats()[:2] == (1, 1)
    assert rmq("cancel", "orders", ready, later, "--yes").out == "removed 2 messages of orders\n"
    again = rmq("cancel", "orders", ready, "--yes", "--json")
    assert (again.code, again.records) == (1, [{"queue": "orders", "cancelled": 0, "missing": [ready]}])
    assert f"neither ready nor delayed: {ready}" in again.err
    assert queue.stats()[:2] == (0, 0)


def test_a_named_key_is_freed_with_its_message(rmq: Rmq, queue: LeasedQueue) -> None:
    first = queue.publish("a", dedup_key="order 7").id
    refused = rmq("cancel", "orders", first, "other", "--dedup-key", "order 7", "--yes")
    assert (refused.code, "name one ID" in refused.err) == (2, True)
    assert rmq("cancel", "orders", first, "--dedup-key", "order 7", "--yes").code == 0
    assert queue.publish("b", dedup_key="order 7").accepted


def test_a_search_looks_everywhere_and_says_where_it_found_a_message(rmq: Rmq, queue: LeasedQueue) -> None:
    killed(queue)
    queue.publish_many([NewMessage({"n": n}, id=f"ready-{n}") for n in range(3)])
    queue.publish({"n": 9}, delay=3600)
    queue.claim(lease_id="job", owner="me")
    found = rmq("search", "orders", "--text", '"n"', "--json").records
    assert [(hit["state"], hit["payload"]["n"], hit["lease"], hit["owner"]) for hit in found] == [
        ("leased", 0, "job", "me"),
        ("delayed", 9, None, None),
        ("ready", 2, None, None),
        ("ready", 1, None, None),
        ("dead", 2, None, None),
        ("dead", 1, None, None),
        ("dead", 0, None, None),
    ]
    assert found[1]["due_at"]
    (delayed,) = (line for line in rmq("search", "orders", "--text", '"n":9').out.splitlines() if "delayed" in line)
    assert "59 min" in delayed
    assert '{"n":9}' in delayed, "as it is stored, so that it can be searched for"
    assert len(rmq("search", "orders", "--reason", "timeout*", "--state", "dead", "--json").records) == 2
    assert "nack no order" in rmq("search", "orders", "--id", "id-1").out
    queue.publish("a" * 200 + "the middle" + "b" * 200)
    assert "aaa the middle bbb".replace(" ", "") in rmq("search", "orders", "--text", "the middle").out.replace(" ", "")
    assert len(rmq("search", "orders", "--id", "id-1", "--id", "ready-2", "--json").records) == 2
    assert rmq("search", "orders", "--text", "nothing").out == "no message of orders meets these conditions\n"
    assert "without spaces" in rmq("search", "orders", "--text", '"n": 9').err
    assert "try --reason '*imeout*'" in rmq("search", "orders", "--reason", "imeout").err
    limited = rmq("search", "orders", "--text", '"n"', "--count", "2")
    assert "these are the first 2 messages" in limited.err
    assert rmq("search", "orders").code == 2
    assert "--state must be one of" in rmq("search", "orders", "--text", "x", "--state", "gone").err


def test_a_search_tells_whether_a_deduplication_key_is_remembered(rmq: Rmq, queue: LeasedQueue) -> None:
    queue.publish("x", dedup_key="order 7")
    assert "remembers the key 'order 7' for 59 min" in rmq("search", "orders", "--dedup-key", "order 7").out
    assert "does not remember" in rmq("search", "orders", "--dedup-key", "order 8").out
    (told,) = rmq("search", "orders", "--dedup-key", "order 7", "--json").records
    assert 3500 < told["remembered_s"] <= 3600


def test_a_selection_is_exported_and_imported(rmq: Rmq, queue: LeasedQueue) -> None:
    killed(queue)
    queue.publish("ready")
    assert rmq("export", "orders", "--state", "dead", "--reason", "timeout*").code == 2
    queue.admin.pause()
    ran = rmq("export", "orders", "--state", "dead", "--reason", "timeout*")
    assert [json.loads(line).get("id") for line in ran.out.splitlines()][1:-1] == ["id-0", "id-2"]
    assert "exported 2 messages (2 dead) of orders" in ran.err
    assert "imported 2 messages (2 dead)" in rmq("import", "copy", stdin=ran.out.encode()).out
    assert len(rmq("export", "orders", "--id", "id-1", "--id", "id-2").out.splitlines()) == 4
    assert len(rmq("export", "orders", "--text", "ready").out.splitlines()) == 3


def test_the_rest_of_a_file_is_not_taken_for_imported_when_other_states_are_asked_for(
    rmq: Rmq, queue: LeasedQueue, tmp_path: Path
) -> None:
    killed(queue)
    queue.publish_many(["a", "b"])
    file = tmp_path / "orders.ndjson"
    file.write_text(rmq("export", "orders", "--live").out)
    assert "imported 3 messages (3 dead)" in rmq("import", "copy", str(file), "--state", "dead").out
    for state in (["--state", "ready"], []):
        ran = rmq("import", "copy", str(file), *state)
        assert (ran.code, "was begun with dead of this file" in ran.err) == (1, True)
    assert "imported 2 messages (2 ready)" in rmq("import", "copy", str(file), "--state", "ready", "--as", "ready").out


def test_an_empty_condition_is_not_taken_for_none(rmq: Rmq, queue: LeasedQueue) -> None:
    killed(queue)
    for words in (["dlq", "redrive"], ["dlq", "purge", "--yes"], ["export", "--live"]):
        for option in ("--group", "--text", "--reason", "--header"):
            assert rmq(*words, "orders", option, "").code == 2
    assert queue.stats().dead == 3


def needed(verb: Verb) -> list[str]:
    return ["1" for each in verb.takes if each.required] + ["id"] * (verb.needs in {"lease", "message"})


@pytest.mark.parametrize("discipline", ["streams", "rotation"])
def test_disciplines_without_dead_letters_refuse_with_the_names_of_those_that_have_them(
    rmq: Rmq, discipline: str
) -> None:
    rmq("publish", "work", *(["x"] if discipline == "rotation" else ['{"n":1}', "-j"]), "-d", discipline)
    for command in (
        ["dlq", "reasons", "work"],
        ["dlq", "redrive", "work", "--reason", "x"],
        ["dlq", "purge", "work", "--text", "x", "--yes"],
        ["dlq", "edit", "work", "id", "x", "--yes"],
        *([verb.word, "work", *needed(verb), *["--yes"] * verb.warns] for verb in offered()),
        ["search", "work", "--dedup-key", "x"],
        ["search", "work", "--text", "x"],
    ):
        ran = rmq(*command)
        assert (ran.code, "use leased" in ran.err) == (2, True), command


def test_ctrl_c_ends_a_long_redrive_and_says_what_was_done(
    rmq: Rmq, queue: LeasedQueue, server_url: str, redis_client: redis.Redis
) -> None:
    letter = b"1 1700000000000 30 nack\t1700000000000\tme\tbroken\n"
    letter = b"1 1700000000000 %d %bid-%%d s0 x" % (len(b"nack\t1700000000000\tme\tbroken\n"), letter[19:])
    queue.publish("x")
    for start in range(0, 60_000, 1_000):
        redis_client.lpush("rmq:{orders}:dead", *(letter % n for n in range(start, start + 1_000)))
    command = [sys.executable, "-m", "rmq_cli", "dlq", "redrive", "orders", "--reason", "broken"]
    running = subprocess.Popen(
        command, env={**os.environ, "RMQ_URL": server_url}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    eventually(lambda: redis_client.llen("rmq:{orders}:dead") < 60_000)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 1
    left = redis_client.llen("rmq:{orders}:dead")
    assert 0 < left < 60_000
    assert out == f"redriven {60_000 - left:,} dead letters of orders\n"
    assert "stopped" in err


def test_the_editor_gets_the_payload_and_returns_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rmq_cli import dead

    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/wrong/right/ "$1"; echo >> "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    assert dead._in_editor("a wrong path", ".txt") == "a right path"
    monkeypatch.setenv("VISUAL", "/nowhere")
    with pytest.raises(Exception, match="nothing was changed"):
        dead._in_editor("x", ".txt")


def test_a_message_that_kills_its_worker_is_set_aside_while_it_is_leased(rmq: Rmq, queue: LeasedQueue) -> None:
    killer, other = queue.publish_many(["killer", "other"]).ids
    lease = queue.claim(max_messages=2, owner="worker")
    assert lease is not None
    ran = rmq("dead-letter", "orders", killer, "--reason", "kills its worker")
    assert (ran.code, ran.out) == (0, "moved 1 message of orders to the dead letters\n")
    (letter,) = queue.admin.dead_letters()
    assert (letter.id, letter.history[-1].kind, letter.history[-1].reason) == (killer, "moved", "kills its worker")
    assert queue.ack(lease).settled == 1
    again = rmq("dead-letter", "orders", killer, other, "--json")
    assert (again.code, again.records) == (1, [{"queue": "orders", "dead_lettered": 0, "missing": [killer, other]}])
    assert f"neither ready nor delayed nor leased: {killer}, {other}" in again.err
    assert f"dead-lettered  {letter.history[-1].owner}" in rmq("why", "orders", killer).out
