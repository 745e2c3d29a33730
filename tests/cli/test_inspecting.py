from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
import redis

import rmq_core
from rmq_core import NewMessage
from rmq_core.protocol import open_queue
from tests.core.leases import PATIENCE_S, crash, elapse
from tests.servers.process import until

Rmq = Callable[..., Any]


def publish(rmq: Rmq, discipline: str, queue: str = "q") -> None:
    assert rmq("publish", queue, '{"n":1}', *(["-j"] if discipline == "streams" else []), "-d", discipline).code == 0


def test_every_discipline_is_found_by_the_name_of_its_queue(rmq: Rmq, discipline: str) -> None:
    publish(rmq, discipline)
    assert rmq("queues", "list", "--json").records == [{"queue": "q", "discipline": discipline}]
    found, named = (rmq("stats", *names, "--json").records[0] for names in ([], ["q"]))
    assert (found["discipline"], found["ready"]) == (named["discipline"], named["ready"]) == (discipline, 1)
    (record,) = rmq("peek", "q", "--json").records
    assert record["payload"] in ({"n": 1}, '{"n":1}')
    assert record["id"] in rmq("peek", "q").out


@pytest.mark.parametrize("words", [("peek", "q"), ("dlq", "list", "q"), ("queues", "list")])
def test_global_options_may_precede_the_command(
    rmq: Rmq, server_url: str, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    publish(rmq, "leased")
    expected = rmq(*words, "--json")
    assert expected.code == 0
    monkeypatch.setenv("RMQ_URL", "redis://localhost:1/0")
    assert rmq("--url", server_url, "--json", *words)[:2] == expected[:2]
    assert rmq("--url", "redis://localhost:2/0", *words, "--url", server_url, "--json")[:2] == expected[:2]
    assert rmq(*words).code == 3


def test_stats_have_the_documented_names(rmq: Rmq) -> None:
    publish(rmq, "leased")
    assert list(rmq("stats", "--json").records[0]) == [
        "queue", "discipline", "ready", "delayed", "leased", "leases", "dead", "oldest_age", "paused", "isolated",
        "oldest_lease",
    ]  # fmt: skip


def stored(client: redis.Redis) -> dict[bytes, object]:
    """What the queue holds, without the counts that the queue object of a test flushes about once a second."""
    names: list[bytes] = client.keys("rmq:{q}:*")
    return {name: client.dump(name) for name in names if b":slot:" not in name and not name.endswith(b":history")}


def test_delayed_and_leased_messages_can_be_listed(rmq: Rmq, redis_client: redis.Redis) -> None:
    with closing(rmq_core.LeasedQueue(redis_client, "q")) as queue:
        queue.publish_many([f"together {number}" for number in range(4)])
        for _ in range(2):
            queue.nack(queue.claim(max_messages=4), delay=0)  # type: ignore[arg-type]
        queue.publish_many([f"later {number}" for number in range(250)], delay=3600)
        queue.publish_many([f"held {number}" for number in range(250)])
        claims = [queue.claim(max_messages=240, owner=f"worker {number}", lease=3600) for number in range(2)]
        held = {lease.id: lease for lease in claims if lease}  # one of the isolated messages, one of the others
        before = stored(redis_client)

        def peek(state: str, *more: str) -> list[dict[str, Any]]:
            return list(rmq("peek", "q", "--state", state, "--json", *more).records)

        delayed = peek("delayed", "-n", "300")
        assert {one["payload"] for one in delayed} == {f"later {number}" for number in range(250)}
        assert all(one["due_at"] > one["enqueued_at"] for one in delayed)
        leased = Counter((one["lease"], one["owner"]) for one in peek("leased", "-n", "300"))
        assert leased == {(lease.id, lease.owner): lease.count for lease in held.values()}
        assert len(peek("isolated")) == queue.stats().isolated > 0
        assert len(peek("ready", "-n", "3")) == len(peek("leased", "-n", "3")) == 3
        assert "later " in rmq("peek", "q", "--state", "delayed").out
        assert "worker 1" in rmq("peek", "q", "--state", "leased", "-n", "300").out
        assert stored(redis_client) == before


def test_isolated_messages_and_the_largest_groups_of_a_queue_with_groups_are_shown(
    rmq: Rmq, redis_client: redis.Redis
) -> None:
    with closing(rmq_core.LeasedQueue(redis_client, "q")) as queue:
        queue.admin.configure(groups="exclusive")
        queue.publish_many([f"together {number}" for number in range(4)], group="tenant-7")
        for _ in range(2):
            queue.nack(queue.claim(max_messages=4), delay=0)  # type: ignore[arg-type]
        for number in range(8):
            queue.publish_many(["x"] * 2, group=f"tenant {number + 10}")
        queue.publish_many(["x"] * 9)
        publish(rmq, "leased", "plain")
        shown = rmq("peek", "q", "--state", "isolated", "--json").records
        assert [(one["payload"], one["group"]) for one in shown] == [(f"together {n}", "tenant-7") for n in range(4)]
        assert "tenant-7" in rmq("peek", "q", "--state", "isolated").out
        assert len(rmq("peek", "q", "-n", "100", "--json").records) == 29
        ran = rmq("stats", "q", "plain")
        assert ran.err.strip() == (
            "q: 4 isolated: they failed together and are tried apart\n"
            "q waits in 10 groups, the most in no group (9), tenant-7 (4), tenant 10 (2); see rmq groups"
        )
        assert "tenant" not in rmq("stats").err
        assert rmq("stats", "q", "--json").err == ""


def test_a_name_used_by_two_disciplines_requires_the_discipline(rmq: Rmq) -> None:
    publish(rmq, "reliable")
    publish(rmq, "jobs")
    ran = rmq("stats", "q")
    assert ran.code == 1
    assert "q' is jobs and reliable" in ran.err or "q' is reliable and jobs" in ran.err
    assert rmq("stats", "q", "-d", "jobs").code == 0


def test_an_unknown_queue_is_not_shown_as_an_empty_one(rmq: Rmq) -> None:
    ran = rmq("peek", "typo")
    assert (ran.code, ran.out) == (2, "")
    assert "queues list" in ran.err


def test_an_unknown_name_does_not_hide_the_queues_beside_it(rmq: Rmq) -> None:
    rmq("publish", "orders", "a")
    rmq("publish", "orders-eu", "a")
    rmq("publish", "idle", "a")
    rmq("consume", "idle")
    ran = rmq("stats", "ordres", "idle", "none-*", "--json")
    assert ran.code == 1
    assert [each["queue"] for each in ran.records] == ["idle"]
    assert "did you mean 'orders' or 'orders-eu'?" in ran.err
    assert "none-*: no registered queue" in ran.err
    assert [each["queue"] for each in rmq("stats", "orders*", "--json").records] == ["orders", "orders-eu"]
    assert [each["queue"] for each in rmq("stats", "--filled", "--json").records] == ["orders", "orders-eu"]
    rmq("publish", "orders[1]", "a")
    assert [each["queue"] for each in rmq("stats", "orders[1]", "--json").records] == ["orders[1]"]


def test_a_shell_completes_the_names_of_queues(rmq: Rmq, server_url: str) -> None:
    for name in ("orders", "orders-eu", "invoices"):
        rmq("publish", name, "a")

    def completed(words: str, url: str = server_url) -> list[str]:
        variables = {"_RMQ_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        command, env = [sys.executable, "-m", "rmq_cli"], {**os.environ, **variables, "RMQ_URL": url}
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.split()

    assert completed("rmq stats ord") == ["orders", "orders-eu"]
    assert completed("rmq why inv") == ["invoices"]
    assert completed("rmq run jobs:handle -q ord") == ["orders", "orders-eu"]
    assert completed("rmq why inv", "redis://127.0.0.1:1/0") == []


def test_clients_say_which_program_is_there_and_which_is_gone(rmq: Rmq, server_url: str) -> None:
    settings = rmq_core.RedisSettings.from_url(server_url, client_name="billing")
    with rmq_core.LeasedQueue(settings, "q", rmq_core.LeasedConfig(max_deliveries=7)) as queue:
        queue.publish("a")
        queue.claim()
        elapse(queue, 200)
        queue.publish("b")
        table, (_, record) = rmq("clients", "q").out, rmq("clients", "q", "--json").records
    program = ["billing", os.uname().nodename, str(os.getpid()), rmq_core.__version__]
    _, _, *rows = table.splitlines()
    gone, now = (re.split(r"  +", row.strip()) for row in rows)
    assert (now[:5], now[6:]) == (["publisher", *program], ["max_deliveries=7"])
    assert (gone[:5], gone[6:]) == (["consumer", *program], ["max_deliveries=7"])
    assert re.fullmatch(r"\d s ago", now[5])
    assert re.fullmatch(r"3 min 2\d s ago, gone or hangs", gone[5])
    assert [str(record[each]) for each in ("name", "host", "pid", "version")] == program
    assert record["settings"] == "max_deliveries=7"


def test_the_owners_of_many_leases_are_told_with_their_sums(rmq: Rmq, redis_client: redis.Redis) -> None:
    with closing(rmq_core.LeasedQueue(redis_client, "q")) as queue:
        queue.publish_many(["x"] * 24)
        for owner, leases in (("steady", 1), ("hanging", 10)):
            for _ in range(leases):
                queue.claim(max_messages=2, owner=owner)
    assert rmq("leases", "q").err.splitlines() == ["hanging: 10 leases, 20 messages", "steady: 1 lease, 2 messages"]


def test_leases_show_their_holder_and_never_the_token(rmq: Rmq, server_url: str) -> None:
    with rmq_core.LeasedQueue(server_url, "q") as queue:
        queue.publish("a")
        held = queue.claim(lease_id="dag/run", owner="try 1")
        shown, told = rmq("leases", "q"), rmq("leases", "q", "--json")
    assert told.records[0]["id"] == "dag/run"
    assert told.records[0]["owner"] == "try 1"
    assert "dag/run" in shown.out
    assert "these are" not in shown.err
    assert "these are the first 1 lease: --count shows more" in rmq("leases", "q", "--count", "1").err
    assert held is not None
    assert held.token is not None
    assert not any(held.token.split(".")[1] in text for text in (*shown[1:], *told[1:]))


@pytest.mark.parametrize("discipline", ["reliable", "streams", "rotation", "jobs"])
def test_who_holds_messages_is_shown_of_disciplines_without_leases_too(
    rmq: Rmq, server_url: str, discipline: str
) -> None:
    publish(rmq, discipline)
    with rmq_core.open_queue(server_url, "q", discipline) as queue:
        held = queue.claim(owner="me")
        shown, told = rmq("leases", "q"), rmq("leases", "q", "--json")
    assert held is not None
    (record,) = told.records
    assert record["count"] == 1
    assert record["first"] == (None if discipline == "jobs" else held.message.id)
    assert "first message" in shown.out


def test_dead_letters_are_listed_redriven_and_purged(rmq: Rmq) -> None:
    rmq("publish", "q", "a", "b")
    rmq("configure", "q", "max_deliveries=1")
    rmq("consume", "q", "--", "false")
    assert "nack exit code 1" in rmq("dlq", "list", "q").out
    assert rmq("dlq", "redrive", "q", "--max", "1", "--json").records == [{"queue": "q", "redriven": 1}]
    assert rmq("dlq", "purge", "q", "--yes", "--json").records == [{"queue": "q", "purged": 1}]
    assert rmq("dlq", "list", "q").out == "q has no dead letters\n"
    assert rmq("stats", "q", "--json").records[0]["ready"] == 1


def test_purging_requires_a_confirmation_and_deletes_nothing_without_a_terminal(rmq: Rmq) -> None:
    rmq("publish", "q", "a")
    rmq("configure", "q", "max_deliveries=1")
    rmq("consume", "q", "--", "false")
    ran = rmq("dlq", "purge", "q")
    assert ran.code == 2
    assert "Delete 1 dead letter of q (leased)" in ran.err
    assert rmq("stats", "q", "--json").records[0]["dead"] == 1


def test_reaping_returns_the_messages_of_a_dead_worker_of_a_reliable_queue(rmq: Rmq, server_url: str) -> None:
    publish(rmq, "reliable")
    dead = open_queue(server_url, "q", "reliable")
    assert dead.claim() is not None
    rmq("configure", "q", "timeout=1ms")
    found = rmq("reap", "q", "--json").records[0]
    assert (found["returned"], found["dead"]) == (1, 0)
    dead.close()


def test_top_without_a_terminal_prints_one_table_after_another(rmq: Rmq) -> None:
    publish(rmq, "leased")
    publish(rmq, "jobs", "r")
    records = rmq("top", "--times", "2", "--interval", "0.1", "--json").records
    assert [record["queue"] for record in records] == ["q", "r"] * 2
    assert "ready lately" in rmq("top", "q", "--times", "1").out


def test_a_reaper_repeats_until_it_is_stopped(rmq: Rmq, server_url: str) -> None:
    publish(rmq, "reliable")
    rmq("configure", "q", "timeout=0.2")
    arguments = [sys.executable, "-m", "rmq_cli", "reap", "q", "--every", "0.1"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as reaper, open_queue(server_url, "q", "reliable") as dead:
        assert dead.claim(wait=5) is not None
        until(lambda: dead.stats().ready == 1, PATIENCE_S)
        reaper.terminate()
        told, _ = reaper.communicate(timeout=PATIENCE_S)
    assert reaper.returncode == 0
    assert b"1 returned, 0 dead" in told


def test_an_empty_queue_is_forgotten_and_one_that_holds_anything_is_not(rmq: Rmq) -> None:
    for name in ("typo", "orders"):
        publish(rmq, "leased", name)
    assert rmq("consume", "typo").code == 0
    ran = rmq("queues", "forget", "typo")
    assert (ran.code, ran.out) == (0, "forgot typo\n")
    refused = rmq("queues", "forget", "orders")
    assert refused.code == 1
    assert "queue 'orders' holds 1 ready" in refused.err
    assert rmq("queues", "list", "--json").records == [{"queue": "orders", "discipline": "leased"}]
    assert rmq("queues", "forget", "typo").code == 2  # it is not registered


def test_the_shards_of_a_queue_are_listed_with_what_each_holds(rmq: Rmq, redis_client: redis.Redis) -> None:
    rmq("publish", "q", "x")
    assert rmq("shards", "q").out == "q is not stored in shards\n"
    assert rmq("configure", "q", "shards=3").code == 0
    with open_queue(redis_client, "q", "leased") as queue:
        queue.publish_many([str(number) for number in range(3000)])
    found = rmq("shards", "q", "--json").records
    assert sum(each["stats"]["ready"] for each in found) == 3001
    for each in found[1:]:
        redis_client.delete(f"rmq:shard:{{q~{each['name']}}}:ready")
    ran = rmq("shards", "q")
    assert ran.code == 0
    assert "shard 0 has 3.0 times as many ready messages as the mean of the shards" in ran.err
    found = rmq("shards", "q", "--json").records
    assert [set(each) for each in found] == [{"queue", "name", "slot", "draining", "epoch", "stats", "error"}] * 3
    lost = found[1]["name"]
    redis_client.set(f"rmq:shard:{{q~{lost}}}:leases", "x")
    ran = rmq("shards", "q")
    assert ran.code == 1
    assert "away" in ran.out
    with open_queue(redis_client, "jobs", "jobs") as queue:
        queue.publish({"n": 1})
    assert "leased" in rmq("shards", "jobs").err


def test_the_stats_of_a_queue_in_shards_are_those_of_one_queue(rmq: Rmq, redis_client: redis.Redis) -> None:
    publish(rmq, "leased", "plain")
    with open_queue(redis_client, "q", "leased") as queue:
        assert queue.admin.configure(shards=4).plain["settings"] == "shards=4"
        queue.publish_many([NewMessage(str(number), dedup_key=str(number)) for number in range(400)])
        queue.claim(max_messages=300, lease_id="run")
        whole = {"shards": {"all": 4, "answer": 4}, "ready": 100, "leased": 300, "leases": 1}
        assert whole.items() <= rmq("stats", "q", "--json").records[0].items()
        ran = rmq("stats", "q", "plain")
        assert (ran.code, ran.err) == (0, "q is stored in 4 shards; see rmq shards\n")
        other = queue.admin.shards()[2]
    assert "shards" not in rmq("stats", "plain", "--json").records[0]
    redis_client.rpush(f"rmq:shard:{{q~{other.name}}}:ready", *["x"] * 5000)
    assert f"shard {other.name} has 3.9 times as many ready messages" in rmq("stats", "q").err
    redis_client.set(f"rmq:shard:{{q~{other.name}}}:delayed", "x")
    ran = rmq("stats", "q")
    assert ran.code == 1
    assert f"3 of 4 shards of q answer, and not {other.name} (slot {other.slot}): " in ran.err
    assert rmq("stats", "q", "--json").records[0]["shards"] == {"all": 4, "answer": 3}
    ran = rmq("stats")
    assert ran.code == 0
    assert "3 of 4 shards of q answer" in ran.err
    assert "plain" in ran.out
    redis_client.delete(f"rmq:shard:{{q~{other.name}}}:delayed")
    assert rmq("configure", "q", "shards=3").out.startswith("q stores shards=3; 1 shard more until claims have emptied")


def test_a_crash_loop_leads_to_the_message_that_kills_its_workers(rmq: Rmq, redis_client: redis.Redis) -> None:
    with closing(rmq_core.LeasedQueue(redis_client, "q")) as queue:
        killer = crash(queue, 2)
        queue.publish_many(["innocent"] * 3)
        queue.claim(lease=3600)
    cause, act = rmq("stats", "q").err.splitlines()
    assert cause.startswith("q: leases expired in 2 of the last 15 minutes: a message may be killing its workers")
    assert act == f"q: {killer} expired 2 times; `rmq dead-letter q {killer}` sets it aside"
    assert killer not in rmq("stats").err
    assert f"{killer} killer (expired 2 times)" in rmq("leases", "q").out
    assert rmq("dead-letter", "q", killer).code == 0
    assert rmq("stats", "q", "--json").records[0]["dead"] == 1


def test_a_consumer_at_which_all_leases_expire_is_named(rmq: Rmq, redis_client: redis.Redis) -> None:
    with closing(rmq_core.LeasedQueue(redis_client, "q")) as queue:
        message = crash(queue, 2, owner="reporter-2/56")
    act = rmq("stats", "q").err.splitlines()[1]
    assert act.startswith(f"q: {message} expired 2 times at reporter-2/56, which may hang instead: then restart that; ")


def test_queues_that_need_attention_come_first_and_named_ones_say_why(rmq: Rmq, redis_client: redis.Redis) -> None:
    with closing(rmq_core.LeasedQueue(redis_client, "a-calm")) as queue:
        queue.ack(queue.claim() if queue.publish("x") else None)  # type: ignore[arg-type]
    with closing(rmq_core.LeasedQueue(redis_client, "few")) as queue:
        queue.publish("x")
        queue.admin.pause()
    with closing(rmq_core.LeasedQueue(redis_client, "many")) as queue:
        queue.publish_many(["x"] * 50)
        queue.admin.pause()
    with closing(rmq_core.LeasedQueue(redis_client, "z-dead", rmq_core.LeasedConfig(max_deliveries=1))) as queue:
        queue.publish("x")
        queue.nack(queue.claim())  # type: ignore[arg-type]
    ran = rmq("stats")
    places = [ran.out.index(name) for name in ("z-dead", "many", "few", "a-calm")]
    assert places == sorted(places)
    told = ran.err.splitlines()
    assert (told[0], told[3]) == (
        "z-dead: 1 dead letter in the last hour", "3 queues need attention and come first: `rmq stats QUEUE` says more",
    )  # fmt: skip
    assert [line.split()[:4] for line in told[1:3]] == [["many", "is", "paused", "by"], ["few", "is", "paused", "by"]]
    named = rmq("stats", "few", "z-dead")
    assert named.err.splitlines()[0] == "z-dead: 1 dead letter in the last hour"
    assert named.err.splitlines()[1].startswith("few is paused by ")
    assert [each["queue"] for each in rmq("stats", "--json").records] == ["a-calm", "few", "many", "z-dead"]
