"""The base of the model test: a queue and its model side by side, and the invariants between them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from rmq_core import Lease, LeasedConfig, Overflow, RedisMessageQueueError
from tests.core.leased.model import Model
from tests.core.leased.values import Held
from tests.core.leased.view import View
from tests.core.worlds import World

FOREVER = 86_400
_names = itertools.count()


class Bench(RuleBasedStateMachine):
    """A queue, its model, and every lease object ever returned, most of them stale."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.handles: list[Lease] = []
        self.tokens: set[str] = set()

    @initialize(
        max_deliveries=st.sampled_from([None, 1, 2, 3, 4]),
        room=st.sampled_from([(None, Overflow.RAISE), (7, Overflow.RAISE), (7, Overflow.DROP_OLDEST)]),
        max_dead=st.sampled_from([3, 1000]),
        logs=st.sampled_from([0, 2, 1000]),
    )
    def start(self, max_deliveries: int | None, room: tuple[int | None, Overflow], max_dead: int, logs: int) -> None:
        self.world.client.flushdb()
        config = LeasedConfig(
            lease=FOREVER, max_deliveries=max_deliveries, max_ready=room[0], overflow=room[1], max_dead=max_dead,
            completed_log=logs, failed_log=logs, dedup_window=FOREVER,
        )  # fmt: skip
        name = f"model {next(_names)}"
        self.watch = self.world.queue(name, config)
        self.queue = self.open(name, config)
        self.model = Model(config)
        self.view = View(self.world.client, name)
        self.model.isolated_now = lambda: {shape[0] for _, shape in self.view.read()["isolated"]}

    def open(self, name: str, config: LeasedConfig) -> Any:
        """The queue that the rules use; `watch` only reads."""
        del name, config
        return self.watch

    def teardown(self) -> None:
        if hasattr(self, "queue"):
            self.queue.close()
            self.watch.close()

    # Invariants

    @invariant()
    def both_hold_the_same(self) -> None:
        if not hasattr(self, "queue"):
            return
        model, found = self.model, self.view.read()
        assert found["strays"] == set()
        assert found["ready"] == [item.shape for item in model.ready]
        assert found["delayed"] == {item.shape for item in model.delayed + model.due}
        assert found["isolated"] == {(item.group, item.shape) for item in model.isolated}
        assert found["dead"] == [item.shape for item in model.dead]
        assert found["completed"] == model.completed
        assert found["failed"] == model.failed
        assert found["done"] == model.done
        assert found["leases"] == {held.id: _shape(held) for held in model.held.values()}

    @invariant()
    def no_message_is_lost_or_in_two_places(self) -> None:
        if hasattr(self, "queue"):
            ids = [item.id for item in self.model.living()]
            assert len(ids) == len(set(ids))
            assert not set(ids) & set(self.model.gone)

    @invariant()
    def stats_agree(self) -> None:
        if not hasattr(self, "queue"):
            return
        model, stats = self.model, self.watch.stats()
        leased = sum(len(held.open) for held in model.held.values())
        assert stats[:5] == (
            len(model.ready) + len(model.isolated), len(model.delayed) + len(model.due), leased, len(model.held),
            len(model.dead),
        )  # fmt: skip
        assert stats.isolated == len(model.isolated)
        assert stats.paused == model.paused

    def handle(self, which: int) -> Lease:
        """Return an earlier lease; every other time one that is still held."""
        live = [lease for lease in self.handles if self.is_live(lease)]
        pool = live if which % 2 and live else self.handles[-8:]
        return self.handles[-1] if which < 0 else pool[which // 2 % len(pool)]

    def is_live(self, lease: Lease) -> bool:
        held = self.model.held.get(lease.id)
        return held is not None and held.token == lease.token


def _shape(held: Held) -> tuple[Any, ...]:
    items = [item.shape for item in held.items]
    return held.token, held.owner, held.takeovers, held.returned, items, held.settled


def outcome(call: Callable[[], Any]) -> tuple[Any, type[Exception] | None]:
    """Return what a call returned, and the kind of error it raised."""
    try:
        return call(), None
    except RedisMessageQueueError as error:
        return None, type(error)
