"""The operations of a reliable queue, driven by hand."""

from __future__ import annotations

import pytest

from rmq_core import QueueFull, QueueUnavailable
from rmq_core.exchange import Sleep, Wait
from rmq_core.reliable import claiming, settling
from rmq_core.reliable.state import ReliableConfig, ReliableEngine, ReliableKeys
from tests.core.by_hand import step
from tests.core.leased.by_hand import envelope

KEYS = ReliableKeys("q")


@pytest.fixture
def engine() -> ReliableEngine:
    return ReliableEngine(KEYS, ReliableConfig(worker="w"), registered=True)


def test_a_server_that_refused_to_block_is_not_asked_to_block_again_at_once(engine: ReliableEngine) -> None:
    exchange = claiming.claim(engine, wait=9)
    next(exchange)
    step(exchange, [b"empty 5000 9000", []])
    pause = step(exchange, (QueueFull("full"), [b"empty 4990 9000", []]))
    assert pause == Sleep(0.25)
    assert isinstance(step(exchange, None), Wait)


def test_a_failed_close_can_be_repeated(engine: ReliableEngine) -> None:
    engine.unanswered["t"] = "w"
    exchange = settling.leave(engine)
    next(exchange)
    with pytest.raises(QueueUnavailable):
        exchange.throw(QueueUnavailable("gone"))
    assert engine.unanswered == {"t": "w"}


@pytest.mark.parametrize(
    ("entry", "known_as"),
    [
        (envelope("a", "m"), b"m"),
        (envelope("a", "m", history=b"nack\t1\tme\tno\n"), b"m"),
        (b"0 1 0 m x", b"m"),
        (b"0 1 99 m s0 a", b"0 1 99 m s0 a"),
        (b"by hand", b"by hand"),
        (b"", b""),
    ],
)
def test_an_entry_is_known_by_the_id_that_the_scripts_read_from_it(entry: bytes, known_as: bytes) -> None:
    assert settling._id_of(entry) == known_as
