from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from rmq_core import LeasedConfig, LeasedQueue
from rmq_core.observe.history import actor
from tests.core.leases import PATIENCE_S
from tests.servers.process import until

Rmq = Callable[..., Any]
PAYLOADS = {"streams": ['{"n":1}', '{"n":2}', '{"n":3}']}


def fill(rmq: Rmq, discipline: str = "leased") -> list[str]:
    payloads = PAYLOADS.get(discipline, ["one", "two", "three"])
    flag = ["-j"] if discipline == "streams" else []
    assert rmq("publish", "q", *payloads, *flag, "-d", discipline).code == 0
    return payloads


def in_shell(script: str) -> list[str]:
    return ["--", "sh", "-c", script]


def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start `rmq` in its own process, which can receive signals."""
    return subprocess.Popen([sys.executable, "-m", "rmq_cli", *arguments], **options)


def test_messages_are_printed_one_a_line_and_acked(rmq: Rmq, discipline: str) -> None:
    payloads = fill(rmq, discipline)
    ran = rmq("consume", "q")
    assert (ran.code, ran.out.split(), ran.err) == (0, payloads, "3 acked\n")
    stats = rmq("stats", "q", "--json").records[0]
    assert (stats["discipline"], stats["ready"], stats["leased"]) == (discipline, 0, 0)


def test_a_command_receives_the_payload_and_its_exit_code_settles_the_message(
    rmq: Rmq, discipline: str, tmp_path: Path
) -> None:
    payloads = fill(rmq, discipline)
    seen = tmp_path / "seen"
    ran = rmq("consume", "q", "--max", "1", *in_shell(f"cat > {seen}"))
    assert (ran.code, ran.err) == (0, "1 acked\n")
    assert seen.read_text() == payloads[0]
    ran = rmq("consume", "q", "--max", "1", *in_shell("exit 3"))
    assert ran.code == 1
    assert "1 failed and requeued" in ran.err
    stats = rmq("stats", "q", "--json").records[0]
    assert stats["ready"] + stats["delayed"] + stats["leased"] == 2


def test_a_command_receives_the_metadata_of_its_message(rmq: Rmq) -> None:
    fill(rmq)
    first = rmq("peek", "q", "--json").records[0]["id"]
    ran = rmq("consume", "q", "--max", "1", *in_shell('echo "$RMQ_QUEUE $RMQ_MESSAGE_ID $RMQ_DELIVERIES"'))
    assert ran.out == f"q {first} 1\n"


def test_a_command_that_does_not_exist_claims_nothing(rmq: Rmq) -> None:
    fill(rmq)
    ran = rmq("consume", "q", "--", "no-such-command")
    assert ran.code == 2
    assert rmq("peek", "q", "--json").records[0]["deliveries"] == 0


def test_consuming_a_paused_queue_fails_with_an_explanation(rmq: Rmq, redis_client: redis.Redis) -> None:
    fill(rmq)
    with closing(LeasedQueue(redis_client, "q")) as queue:
        queue.admin.pause()
        ran = rmq("consume", "q")
        assert (ran.code, ran.out) == (1, "")
        assert f"rmq: q is paused by {actor()}; claims get nothing until `rmq resume QUEUE`" in ran.err
        queue.admin.resume()
    ran = rmq("consume", "q", "--max", "3")
    assert (ran.code, "paused" in ran.err) == (0, False)
    assert rmq("consume", "q").code == 0


def test_following_a_paused_queue_reports_the_pause_before_it_waits(rmq: Rmq, redis_client: redis.Redis) -> None:
    fill(rmq)
    with closing(LeasedQueue(redis_client, "q")) as queue:
        queue.admin.pause()
        waiting = start("consume", "q", "--follow", "--max", "1", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert waiting.stderr is not None
        assert b"q is paused" in waiting.stderr.readline()
        queue.admin.resume()
    assert waiting.communicate(timeout=PATIENCE_S)[0] == b"one\n"
    assert waiting.returncode == 0


def test_a_lease_that_is_lost_ends_the_command_and_counts_as_lost(rmq: Rmq, tmp_path: Path) -> None:
    fill(rmq)
    thief = tmp_path / "thief.py"
    thief.write_text(
        "import rmq_core, os\n"
        "queue = rmq_core.LeasedQueue(os.environ['RMQ_URL'], 'q')\n"
        "queue.ack(queue.adopt(queue.admin.leases()[0].id, owner='thief'))\n"
    )
    ended = tmp_path / "ended"
    script = f"trap 'touch {ended}; exit 0' TERM; {sys.executable} {thief}; sleep 30 & wait"
    ran = rmq("consume", "q", "--max", "1", "--lease", "1.5", *in_shell(script))
    assert ran.code == 1
    assert ran.err.endswith("1 lost to another consumer\n")
    assert ended.exists()
    assert rmq("stats", "q", "--json").records[0]["ready"] == 2


def test_no_message_is_lost_when_the_output_pipe_is_closed(rmq: Rmq) -> None:
    fill(rmq)
    read, write = os.pipe()
    os.close(read)
    with start("consume", "q", stdout=write, stderr=subprocess.DEVNULL) as process:
        os.close(write)
    assert process.returncode == 1
    first = rmq("peek", "q", "--json").records[0]
    assert (first["payload"], first["deliveries"]) == ("one", 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_the_present_message_be_done(rmq: Rmq, tmp_path: Path, number: signal.Signals) -> None:
    fill(rmq)
    began, told_to_stop = tmp_path / "began", tmp_path / "told"
    script = in_shell(f"touch {began}; while [ ! -e {told_to_stop} ]; do sleep 0.05; done")
    with start("consume", "q", "--follow", *script, stderr=subprocess.PIPE) as process:
        until(began.exists, PATIENCE_S)
        process.send_signal(number)
        told_to_stop.touch()
        _, told = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, told) == (0, b"1 acked\n")
    assert rmq("stats", "q", "--json").records[0]["ready"] == 2


def test_the_second_signal_ends_the_command_and_releases_the_message(rmq: Rmq, tmp_path: Path) -> None:
    fill(rmq)
    began = tmp_path / "began"
    with start("consume", "q", *in_shell(f"touch {began}; exec sleep 600"), stderr=subprocess.DEVNULL) as process:
        until(began.exists, PATIENCE_S)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=PATIENCE_S)
    assert process.returncode == 130
    first = rmq("peek", "q", "--json").records[0]
    assert (first["payload"], first["deliveries"]) == ("one", 0)


def test_a_waiting_consumer_gets_messages_published_later_and_stops_on_a_signal(rmq: Rmq, tmp_path: Path) -> None:
    rmq("publish", "q", "first")
    with (tmp_path / "out").open("wb") as out, start("consume", "q", "--follow", stdout=out) as process:
        until(lambda: (tmp_path / "out").read_bytes() == b"first\n", PATIENCE_S)
        rmq("publish", "q", "second")
        until(lambda: (tmp_path / "out").read_bytes() == b"first\nsecond\n", PATIENCE_S)
        process.terminate()
        assert process.wait(timeout=PATIENCE_S) == 0


ODD = {"name": "Zoë 東京 😀", "half": "\ud83d"}
"""Letters that ASCII lacks, and half an emoji, which UTF-8 lacks, too; only another client can store that."""


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
@pytest.mark.parametrize(
    "command", [["peek", "q"], ["peek", "q", "--json"], ["consume", "q", "--json"], ["dlq", "list", "q", "--json"]]
)
def test_messages_are_shown_whatever_the_encoding_of_stdout_lacks(
    rmq: Rmq,
    redis_client: redis.Redis,
    server_url: str,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    encoding: str,
) -> None:
    with LeasedQueue(server_url, "q", LeasedConfig(max_deliveries=1)) as queue:
        queue.publish({})
        stored = redis_client.lpop("rmq:{q}:ready")
        redis_client.rpush("rmq:{q}:ready", stored.removesuffix(b"{}") + json.dumps(ODD).encode())
        if command[0] == "dlq":
            queue.nack(queue.claim(), reason="Zoë")
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding))
        assert rmq(*command).code == 0
        sys.stdout.flush()
        if "--json" in command:
            assert json.loads(sys.stdout.buffer.getvalue())["payload"] == ODD
        assert queue.stats().leased == 0


@pytest.mark.parametrize(("stored", "waits"), [([], 10), (["backoff=exponential 7200 7200 0"], 7200)])
def test_a_failed_message_waits_ten_seconds_or_for_the_stored_backoff(
    rmq: Rmq, server_url: str, stored: list[str], waits: float
) -> None:
    rmq("publish", "q", "a")
    rmq("configure", "q", *stored)
    rmq("consume", "q", "--", "false")
    with LeasedQueue(server_url, "q") as queue:
        (due,) = queue.admin.browse("delayed").due
        assert waits / 2 < (due - queue.admin.server_time()).total_seconds() <= waits
