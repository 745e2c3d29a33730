"""`rmq bench`: how fast a queue is here, as a ratio to bare list commands in the same run.

Every measured slice stands between two slices of its baseline, and the figure is the median of their ratios: a machine
that is busy with other things slows both.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import typer

from rmq_core.cli.opening import DEFAULT, Server, connected
from rmq_core.cli.options import LOCAL, Discipline, Json, Settings, Url
from rmq_core.cli.output import emit, note, say, show
from rmq_core.exchange import Command, Exchange
from rmq_core.keys import QUEUES, queues_of

_BATCH = 500
_BARE = ("bare", "bare:held")
_Calls = Annotated[int, typer.Option("--calls", min=10, help="Calls in a slice.")]
_Rounds = Annotated[int, typer.Option("--rounds", min=3, help="Slices of each kind.")]
_Bytes = Annotated[int, typer.Option("--payload-bytes", min=1, help="Size of a payload.")]


class Race(NamedTuple):
    """A slice of work, the bare one it is held against, and how many messages each slice handles."""

    name: str
    baseline: str
    run: Callable[[], object]
    bare: Callable[[], object]
    messages: int


class Result(NamedTuple):
    """Messages per second at the median, and the ratio of their rates with its quartiles."""

    name: str
    baseline: str
    per_second: int
    bare_per_second: int
    ratio: float
    low: float
    high: float


def bench(
    *,
    calls: _Calls = 100,
    rounds: _Rounds = 11,
    payload_bytes: _Bytes = 100,
    settings: Settings = None,
    url: Url = LOCAL,
    discipline: Discipline = None,
    as_json: Json = False,
) -> None:
    """Measure publish, claim and ack on a queue of its own, which is removed afterwards."""
    kind = discipline or DEFAULT
    name = f"rmq-bench-{secrets.token_hex(6)}"
    with connected(url) as server, _removed(server, name, kind, settings) as queue:
        slices = Slices(queue, server.client, calls, payload_bytes)
        results = [measure(race, rounds) for race in slices.races()]
    if as_json:
        for result in results:
            emit({"discipline": kind, "payload_bytes": payload_bytes, **result._asdict()})
        return
    show(
        ("what", "per second", "held against", "per second", "ratio", "quartiles"),
        [
            (
                one.name,
                one.per_second,
                one.baseline,
                one.bare_per_second,
                f"{one.ratio:.2f}",
                f"{one.low:.2f}-{one.high:.2f}",
            )
            for one in results
        ],
        "",
    )
    say(f"{kind}, payloads of {payload_bytes} bytes, one connection; ratios carry over to other machines, rates do not")


class Slices:
    """What is measured. The bare slices of one kind leave their lists to those of the next."""

    def __init__(self, queue: Any, client: Any, calls: int, size: int) -> None:
        self.queue, self.client, self.calls = queue, client, calls
        self.payloads, self.text = _payloads(queue.capabilities.payload, size), "x" * size
        self.bare, self.held = (f"rmq:{{{queue.name}}}:{suffix}" for suffix in _BARE)

    def races(self) -> list[Race]:
        many = f"publish_many of {_BATCH}"
        return [
            Race("publish", "LPUSH", self.publish, self.push, self.calls),
            Race("claim + ack", "LMOVE + LREM", self.consume, self.move, self.calls),
            Race(many, "pipelined LPUSH", self.publish_many, self.push_many, _BATCH),
        ]

    def publish(self) -> None:
        for _ in range(self.calls):
            self.queue.publish(next(self.payloads))

    def consume(self) -> None:
        for _ in range(self.calls):
            self.queue.ack(self.queue.claim())

    def publish_many(self) -> None:
        self.queue.publish_many([next(self.payloads) for _ in range(_BATCH)])

    def push(self) -> None:
        for _ in range(self.calls):
            self.client.lpush(self.bare, self.text)

    def move(self) -> None:
        for _ in range(self.calls):
            self.client.lmove(self.bare, self.held, "RIGHT", "LEFT")
            self.client.lrem(self.held, 1, self.text)

    def push_many(self) -> None:
        with self.client.pipeline(transaction=False) as pipe:
            for _ in range(_BATCH):
                pipe.lpush(self.bare, self.text)
            pipe.execute()


def measure(race: Race, rounds: int) -> Result:
    """Interleaved slices, the first of each thrown away."""
    _seconds(race.bare)
    _seconds(race.run)
    bare, ours, before = [], [], _seconds(race.bare)
    for _ in range(rounds):
        ours.append(_seconds(race.run))
        after = _seconds(race.bare)
        bare.append((before + after) / 2)
        before = after
    ratios = [theirs / mine for theirs, mine in zip(bare, ours, strict=True)]
    low, middle, high = (_quantile(ratios, quarters) for quarters in (1, 2, 3))
    rate, bare_rate = (round(race.messages / _quantile(taken, 2)) for taken in (ours, bare))
    return Result(race.name, race.baseline, rate, bare_rate, round(middle, 3), round(low, 3), round(high, 3))


def _payloads(kind: str, size: int) -> Iterator[Any]:
    number = 0
    while True:
        number += 1
        text = f"{number:x}".rjust(size, "x")
        yield text if kind in ("any", "id") else {"x": text}


def _quantile(values: Sequence[float], quarters: int) -> float:
    return sorted(values)[round((len(values) - 1) * quarters / 4)]


def _seconds(run: Callable[[], object]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began


@contextmanager
def _removed(server: Server, name: str, discipline: str, settings: list[str] | None) -> Iterator[Any]:
    """A queue of which nothing is left but call slots, which expire by themselves."""
    with server.queue(name, discipline, settings) as queue:
        try:
            yield queue
        finally:
            note(f"removing the queue {name}")
            server.ask(_remove(queue))


def _remove(queue: Any) -> Exchange[None]:
    keys = queue._engine.keys  # noqa: SLF001  every discipline draws its keys there
    for field in keys.__slots__:
        value = getattr(keys, field)
        if field not in ("name", "prefix"):
            yield Command(("UNLINK", value))
    for suffix in _BARE:
        yield Command(("UNLINK", f"rmq:{{{queue.name}}}:{suffix}"))
    yield Command(("SREM", QUEUES, queue.name))
    yield Command(("SREM", queues_of(queue.discipline), queue.name))
