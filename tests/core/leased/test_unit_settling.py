from __future__ import annotations

from dataclasses import replace

import pytest

from rmq_core.errors import ConfigurationError, LeaseLost, NotDurable
from rmq_core.exchange import Pipeline
from rmq_core.leased.settling import ack, extend_all, nack
from rmq_core.messages import Lease
from rmq_core.policy import Durability, exponential
from tests.core.by_hand import drive
from tests.core.leased.by_hand import asked, engine, envelope, given, held, ref


def test_many_leases_are_extended_in_one_write_each_by_its_own_time() -> None:
    leases = [(held(), 2.0), (held(lease_id="~1"), None), (held(lease_id="b"), 3.0)]
    kept, (batch,) = drive(extend_all(engine(), leases), [[b"7500", b"lost", b"inf"]])
    assert kept == [True, False, True]
    assert isinstance(batch, Pipeline)
    asked_for = [given(call, "lease_id", "lease_ms") for call in batch.calls]
    assert asked_for == [["job", 2000], ["~1", 300_000], ["b", 3000]]
    assert not any(lease.state.lost for lease, _ in leases)


def test_an_ack_that_misses_the_requested_durability_still_took_effect() -> None:
    lease = held()
    core = engine(durability=Durability(2, timeout=0.1))
    assert asked(ack(core, held()), (b"acked 1", 2))[0].then == ("WAIT", 2, 100)
    with pytest.raises(NotDurable, match="acked lease 'job' in queue 'q'"):
        drive(ack(core, lease), [(b"acked 1", 1)])
    assert lease.state.settled
    with pytest.raises(LeaseLost):
        drive(ack(core, held()), [(b"lost", 0)])


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        (None, ""),
        ("two\twords\nof  history\r", "two words of history"),
        ("line\u2028separators\x85and\x1cothers", "line separators and others"),
        ("x" * 300, "x" * 200),
        ("\ud800 odd", "? odd"),
    ],
)
def test_a_reason_is_one_short_line_without_tabs(reason: str | None, kept: str) -> None:
    (whole,) = asked(nack(engine(), held(), reason=reason), b"returned 1 0")
    (some,) = asked(nack(engine(), held(), [ref(0)], reason=reason), b"all s")
    assert whole.given["reason"] == some.given["reason"] == kept


MIXED = replace(held(3), envelopes=[envelope(name, deliveries=count) for name, count in (("x", 2), ("y", 0), ("z", 4))])


@pytest.mark.parametrize(
    ("lease", "delays"),
    [
        (held(1), "1 2000"),
        (held(1, takeovers=2), "3 8000"),
        (replace(held(1), envelopes=[envelope("x", deliveries=3)]), "4 16000"),
        (MIXED, "1 2000 4000 8000 16000 32000"),
        (replace(MIXED, takeovers=1), "2 4000 8000 16000 32000 60000"),
        (held(1, in_memory=False, takeovers=1), "2 4000 8000 16000 32000" + 60 * " 60000"),
    ],
)
def test_the_backoff_covers_the_deliveries_that_the_messages_may_have(lease: Lease, delays: str) -> None:
    core = engine(backoff=exponential(base=2, cap=60, jitter=0))
    assert asked(nack(core, lease), b"returned 1 0")[0].given["delays"] == delays
    assert asked(nack(core, lease, [ref(0)]), b"all s")[0].given["delays"] == delays


def test_a_backoff_that_gives_no_duration_is_refused() -> None:
    class Wrong:
        def delay(self, deliveries: int) -> float:
            return -deliveries

    with pytest.raises(ConfigurationError, match="backoff must be"):
        next(nack(engine(backoff=Wrong()), held()))
