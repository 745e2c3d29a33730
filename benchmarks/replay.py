"""`python -m benchmarks.replay`: show what a publish costs server and client, and how much of it is replay safety.

The call slot makes a resend harmless: the script reads it first and writes the reply into it last. The row "without the
slot" runs the same script without these two commands. A publish that is a bare `LPUSH` cannot be resent safely.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import redis

from benchmarks import cores
from benchmarks.payloads import payloads
from rmq_core import LeasedQueue
from rmq_core.exchange import loading, scripts

CALLS = 3000
SLOT = {
    "local stored = redis.call('GET', slot)": "local stored = nil",
    "redis.call('SET', slot, seq .. ' ' .. reply, 'PX', slot_ttl_ms)": "",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay", description=__doc__)
    parser.add_argument("--server", default="7.0")
    parser.add_argument("--rounds", type=int, default=21)
    given = parser.parse_args()
    with cores.server(given.server) as server, redis.Redis.from_url(server.url) as client:
        rows = measured(client, server.url, given.rounds, CALLS)
    print(f"{'Redis ' + given.server:36}{'server':>12}{'client':>12}")
    for name, found in rows.items():
        print(f"{name:36}" + "".join(f"{statistics.median(side):>9.1f} µs" for side in zip(*found, strict=True)))


def measured(client: Any, url: str, rounds: int, calls: int) -> dict[str, list[tuple[float, float]]]:
    """Return the processor times of each call by round, in µs of server and client. Empties the database."""

    def taken(call: Callable[[str], object]) -> tuple[float, float]:
        client.flushdb()
        sent = payloads(calls)
        call(sent[0])  # loads the script, if there is one
        server_s, client_s = _server_s(client), time.process_time()
        for text in sent:
            call(text)
        client_s = time.process_time() - client_s
        return (_server_s(client) - server_s) / calls * 1e6, client_s / calls * 1e6

    sha = client.script_load("return 1")
    rows: dict[str, list[tuple[float, float]]] = {}
    with LeasedQueue(url, "measured") as queue:
        for _ in range(rounds + 1):  # the first one warms up
            rows.setdefault("LPUSH", []).append(taken(lambda text: client.lpush("bare", text)))
            rows.setdefault("EVALSHA of `return 1`", []).append(taken(lambda _: client.evalsha(sha, 0)))
            rows.setdefault("publish", []).append(taken(queue.publish))
            with _without_slot():
                rows.setdefault("publish without the slot", []).append(taken(queue.publish))
    return {name: found[1:] for name, found in rows.items()}


def _server_s(client: Any) -> float:
    used = client.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


@contextmanager
def _without_slot() -> Iterator[None]:
    """Let publish run the script that neither reads nor writes its slot."""
    read = loading._read  # noqa: SLF001  a script without its slot exists nowhere else

    def changed(name: str) -> str:
        text = read(name)
        for old, new in SLOT.items() if name == "include/replay" else ():
            if old not in text:
                raise RuntimeError(f"include/replay no longer has {old!r}")
            text = text.replace(old, new)
        return text

    _forget()
    loading._read = changed  # noqa: SLF001
    try:
        yield
    finally:
        loading._read = read  # noqa: SLF001
        _forget()


def _forget() -> None:
    loading.load.cache_clear()
    scripts._ARRANGED.clear()  # noqa: SLF001


if __name__ == "__main__":
    main()
