"""Mutation tests: break RMQ in one place at a time and print which test fails: `python tools/mutants.py [number ...]`.

`make test` runs a share of the full product. It is enough if `make test` fails for each of these mutants. They are made
in a git worktree under `build`; a mutant's number is its index in MUTANTS. The committed code must pass first.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TREE = ROOT / "build" / "mutants"
STEPS = (
    ["tests/unit"],
    ["tests/redis"],
    ["tests/faults", "--ignore=tests/faults/airflow", "--ignore=tests/faults/dagster"],
)
OPTIONS = ["-q", "-n", "2", "--maxfail=1", "--tb=no", "--hypothesis-profile=ci"]
HANGS_S = 900


class Mutant(NamedTuple):
    """A change to one file: `old`, which occurs once, becomes `new`."""

    name: str
    file: str
    old: str
    new: str

    def killers(self) -> list[str]:
        """Return the tests that fail, or the folder whose tests hang or cannot start; none if the mutant survives."""
        path = TREE / self.file
        source = path.read_text("utf-8")
        if source.count(self.old) != 1:
            sys.exit(f"{self.name}: {self.file} does not contain `old` exactly once; adapt the mutant")
        path.write_text(source.replace(self.old, self.new), "utf-8")
        try:
            return next(filter(None, map(_failed, STEPS)), [])
        finally:
            path.write_text(source, "utf-8")


def _failed(tests: list[str]) -> list[str]:
    # Python recognises outdated bytecode by the size and the second of its source; a mutant may share both with the
    # original.
    environment = {**os.environ, "PYTHONPATH": str(TREE), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        result = subprocess.run(
            [sys.executable, "-m", "pytest", *OPTIONS, *tests],
            cwd=TREE, env=environment, capture_output=True, text=True, check=False, timeout=HANGS_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [f"{tests[0]} hangs"]
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", result.stdout, re.MULTILINE)
    return failed or [f"{tests[0]} does not start"] * bool(result.returncode)


MUTANTS = [
    Mutant(
        "async driver never resends",
        "rmq_core/exchange/aio.py",
        "        except RETRYABLE as error:\n            await self._recover()\n",
        "        except RETRYABLE as error:\n            raise\n            await self._recover()\n",
    ),
    Mutant(
        "async driver keeps the connection of a cancelled call",
        "rmq_core/exchange/aio.py",
        "            await connection.disconnect(nowait=True)\n            if reason",
        "            if reason",
    ),
    Mutant(
        "async driver resends the wait too",
        "rmq_core/exchange/aio.py",
        "return await retrying(send, again)",
        "return await retrying(send, first)",
    ),
    Mutant(
        "async driver drops a cancellation while connecting",
        "rmq_core/exchange/aio.py",
        "            raise asyncio.CancelledError\n",
        "            pass\n",
    ),
    Mutant("async driver gives up on NOSCRIPT", "rmq_core/exchange/aio.py", "if unknown_script(replies):", "if False:"),
    Mutant(
        "async driver uses connections of another loop",
        "rmq_core/exchange/aio.py",
        " and self._owner[1] is asyncio.get_running_loop() else",
        " else",
    ),
    Mutant(
        "async driver has no timeout",
        "rmq_core/exchange/aio.py",
        "if self.timeout_s is not None:\n            task",
        "if False:\n            task",
    ),
    Mutant(
        "async heartbeat extends nothing",
        "rmq_core/queue/aio_heartbeats.py",
        "kept = list(await queue.extend_all([heartbeat.asked() for heartbeat in due]))",
        "kept = [True for heartbeat in due]",
    ),
    Mutant(
        "async driver on a cluster sends to any node",
        "rmq_core/exchange/aio.py",
        "self.client.get_node_from_key(self._key.decode())",
        "self.client.get_random_node()",
    ),
    Mutant(
        "async driver does not refresh the nodes of the cluster",
        "rmq_core/exchange/aio.py",
        "                await cancellable(self.client.nodes_manager.initialize())",
        "                pass",
    ),
    Mutant(
        "ack is a release",
        "rmq_core/discipline/leased/methods.py",
        "    ack = Method(settling.ack)",
        "    ack = Method(settling.release)",
    ),
    Mutant(
        "sync driver never resends",
        "rmq_core/exchange/sync.py",
        "        except RETRYABLE as error:\n            self._recover()\n",
        "        except RETRYABLE as error:\n            raise\n            self._recover()\n",
    ),
    Mutant(
        "sync driver in a forked child uses the parent's connections",
        "rmq_core/exchange/sync.py",
        "if self._pid != process.id:\n            self._pid",
        "if False:\n            self._pid",
    ),
    Mutant(
        "sync driver on a cluster sends to the default node",
        "rmq_core/exchange/sync.py",
        "nodes.get_node_from_slot(self.client.keyslot(self._key))",
        "self.client.get_default_node()",
    ),
    Mutant(
        "sync driver does not refresh the nodes of the cluster",
        "rmq_core/exchange/sync.py",
        "                self.client.nodes_manager.initialize()",
        "                pass",
    ),
    Mutant("a slot's number does not grow", "rmq_core/exchange/slots.py", "slot.seq += 1", "slot.seq = 1"),
    Mutant(
        "a forked child uses its parent's slots",
        "rmq_core/exchange/slots.py",
        "if own.pid != process.id:\n            own = self._own",
        "if False:\n            own = self._own",
    ),
    Mutant(
        "chained chunks do not name the previous chunk",
        "rmq_core/exchange/frames.py",
        "isinstance(want, Chain) else None",
        "False else None",
    ),
    Mutant(
        "a client's own policy is ignored", "rmq_core/exchange/sync.py", "if patience.budget_s is None:", "if False:"
    ),
    Mutant(
        "the public driver does not encode decoded replies",
        "rmq_core/exchange/public.py",
        "    if isinstance(reply, str):\n        return reply.encode()",
        "    if isinstance(reply, str):\n        return reply",
    ),
    Mutant(
        "the once driver tries again",
        "rmq_core/exchange/once.py",
        "        try:\n            return send(first)\n        except RETRYABLE:\n            self._recover()\n            raise",  # noqa: E501
        "        try:\n            return send(first)\n        except RETRYABLE:\n            self._recover()\n            return send(first)",  # noqa: E501
    ),
    Mutant("no retry after READONLY of Redis 6.2", "rmq_core/exchange/frames.py", ' or ": -READONLY " in text', ""),
    Mutant("no retry after UNBLOCKED", "rmq_core/exchange/frames.py", '"UNBLOCKED", "LOADING"', '"LOADING"'),
    Mutant(
        "XACKDEL (8.6): deleted entries are not counted",
        "rmq_core/lua/include/jobs_entry.lua",
        "if verdict == 1 then",
        "if verdict == 2 then",
    ),
    Mutant(
        "plain servers (6.2, 7.0, Valkey): acked jobs stay on the stream",
        "rmq_core/lua/include/jobs_entry.lua",
        "  redis.call('XDEL', ready, unpack(ids))\n  return acked",
        "  return acked",
    ),
    Mutant("IDMP (8.6) is not used", "rmq_core/lua/jobs/prepare.lua", "if not set.err then return 'native' end", ""),
    Mutant(
        "keys of a queue have no hash tag",
        "rmq_core/queue/keys.py",
        'fill(self, "rmq:{{{}}}:")',
        'fill(self, "rmq:{}:")',
    ),
    Mutant(
        "checks of many queues on a cluster are sent as one call",
        "rmq_core/discipline/leased/operations/surveying.py",
        "size = 1 if apart else _AT_ONCE",
        "size = _AT_ONCE",
    ),
    Mutant(
        "reliable takes a delay",
        "rmq_core/discipline/reliable/config.py",
        "fenced=True, extend=True,",
        "fenced=True, extend=True, delay=True,",
    ),
    Mutant(
        "rotation takes leases over",
        "rmq_core/discipline/rotation/config.py",
        "Capabilities(auto_reclaim",
        "Capabilities(takeover=True, auto_reclaim",
    ),
    Mutant(
        "rotation declares a fence",
        "rmq_core/discipline/rotation/config.py",
        "Capabilities(auto_reclaim",
        "Capabilities(fenced=True, auto_reclaim",
    ),
    Mutant(
        "streams declare dead letters",
        "rmq_core/discipline/streams/config.py",
        "fenced=True, extend=True,",
        "fenced=True, extend=True, dead_letters=True,",
    ),
    Mutant("jobs declare deduplication", "rmq_core/discipline/jobs/config.py", "dedup=True, ", ""),
    Mutant("leased declares no large leases", "rmq_core/discipline/leased/config.py", "large_leases=True, ", ""),
    Mutant("reliable does not declare headers", "rmq_core/discipline/reliable/config.py", ", headers=True", ""),
    Mutant(
        "a refusal of require() is not raised",
        "rmq_core/protocol.py",
        '            raise Unsupported(queue.discipline, f"{capability} (needed',
        '            Unsupported(queue.discipline, f"{capability} (needed',
    ),
    Mutant(
        "a request older than the last one of its slot is executed",
        "rmq_core/lua/include/replay.lua",
        "if last > mine then return 'superseded' end",
        "if last > mine then return nil end",
    ),
    Mutant(
        "a resend is executed again",
        "rmq_core/lua/include/replay.lua",
        "if last < mine then return nil end",
        "if last <= mine then return nil end",
    ),
    Mutant(
        "a refusal is not remembered",
        "rmq_core/lua/include/replay.lua",
        "  return remember(reply)\nend",
        "  return reply\nend",
    ),
    Mutant(
        "the token is compared by its fence alone",
        "rmq_core/lua/include/head.lua",
        "head.token == token then",
        "string.match(head.token, '^%d+') == string.match(token, '^%d+') then",
    ),
    Mutant(
        "a finished lease stays among the leases",
        "rmq_core/lua/include/finish.lua",
        "  redis.call('ZREM', k.leases, k.id)\n",
        "",
    ),
    Mutant(
        "returned messages go to the end of the queue",
        "rmq_core/lua/include/give_back.lua",
        "redis.call('LPUSH', keys.ready, unpack(back))",
        "redis.call('RPUSH', keys.ready, unpack(back))",
    ),
    Mutant(
        "settled messages are returned too",
        "rmq_core/lua/include/give_back.lua",
        "if not is_settled(bits, first, index) then",
        "if true then",
    ),
    Mutant(
        "a message becomes a dead letter one failure late",
        "rmq_core/lua/include/give_back.lua",
        "count - made.shared >= max)",
        "count - made.shared > max)",
    ),
    Mutant(
        "the group is not isolated",
        "rmq_core/lua/include/give_back.lua",
        "if failures > 1 then group",
        "if failures > 9 then group",
    ),
    Mutant(
        "delayed messages never become ready",
        "rmq_core/lua/include/promote.lua",
        "'ZRANGEBYSCORE', delayed, 0, now,",
        "'ZRANGEBYSCORE', delayed, 0, 1,",
    ),
    Mutant(
        "an earlier due time wakes no waiter",
        "rmq_core/lua/include/timer.lua",
        "return not held or due < held",
        "return not held",
    ),
    Mutant(
        "publishing wakes no waiter",
        "rmq_core/lua/include/notify.lua",
        "if redis.call('ZCOUNT', waiters, now, '+inf') > seen.tokens then",
        "if false then",
    ),
    Mutant(
        "a notification is published for each message",
        "rmq_core/lua/include/notify.lua",
        "if redis.call('ZREM', waiters, '*') == 1 then",
        "if redis.call('ZSCORE', waiters, '*') then",
    ),
    Mutant(
        "an id stamped in the future is never late",
        "rmq_core/lua/include/stamps.lua",
        "math.abs(now_s - stamp)",
        "(now_s - stamp)",
    ),
    Mutant(
        "reliable: a message becomes a dead letter one failure late",
        "rmq_core/lua/include/set_aside.lua",
        "count >= how.max_deliveries",
        "count > how.max_deliveries",
    ),
    Mutant(
        "streams: consumers that hold nothing stay",
        "rmq_core/lua/include/holder.lua",
        "redis.call('XGROUP', 'DELCONSUMER', key, group, consumer) end",
        "local _ = 1 end",
    ),
    Mutant(
        "a takeover counts no delivery",
        "rmq_core/lua/include/takeover.lua",
        "if counted then head.takeovers = head.takeovers + 1 end",
        "",
    ),
    Mutant(
        "a takeover keeps the old token",
        "rmq_core/lua/include/takeover.lua",
        "  head.token = redis.call('INCRBY', k.fence, 2) .. '.' .. o.nonce\n",
        "",
    ),
    Mutant(
        "a large claim is not bounded in bytes",
        "rmq_core/lua/include/take.lua",
        "while taken < n and bytes < 8388608 do",
        "while taken < n do",
    ),
    Mutant(
        "isolated messages never have their turn",
        "rmq_core/lua/include/open_lease.lua",
        "return (fence % 2 == 0) ~= swapped",
        "return false",
    ),
]


def main() -> None:
    """Print each mutant with the tests that fail; exit with 1 if one survives."""
    chosen = [int(number) for number in sys.argv[1:]] or range(len(MUTANTS))
    subprocess.run(["git", "worktree", "add", "--force", "--detach", str(TREE)], cwd=ROOT, check=True)
    survivors = 0
    try:
        for number in chosen:
            killers = MUTANTS[number].killers()
            survivors += not killers
            print(number, MUTANTS[number].name, *(killers or ["SURVIVES"]), sep="\t", flush=True)
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(TREE)], cwd=ROOT, check=True)
    sys.exit(bool(survivors))


if __name__ == "__main__":
    main()
