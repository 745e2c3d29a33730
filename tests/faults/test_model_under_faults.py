"""The engine against its model while connections break: no fault may change a result, whatever happened before it.

The machine of `leased_machine` uses a proxy that loses a reply, loses a request or delays one at a random
command; a delayed request arrives at a random later moment. The model has no faults. So does the oracle of groups.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from rmq_core import LeasedConfig
from tests.core.leased.groups import Groups
from tests.core.leased.machine import Machine, tell_stories
from tests.core.worlds import World
from tests.faults.proxy import Fault, Proxy

WHOLE = pytest.mark.nightly("faults/test_model_under_faults.py::test_broken_connections_break_no_promise_of_groups")


class MachineOnAWire(Machine):
    """The rules of the model, and faults."""

    def __init__(self, world: World, wire: Proxy) -> None:
        super().__init__(world)
        self.wire = wire
        self.wire.cut()

    def open(self, name: str, config: LeasedConfig) -> Any:
        return self.world.queue(name, config, settings=self.wire.url)

    @rule(at=st.integers(0, 3))
    def reply_gets_lost(self, at: int) -> None:
        self.break_wire(Fault.REPLY_LOST, at)

    @rule(at=st.integers(0, 3))
    def request_gets_lost(self, at: int) -> None:
        self.break_wire(Fault.REQUEST_LOST, at)

    @rule(at=st.integers(0, 3))
    def request_is_delayed(self, at: int) -> None:
        self.break_wire(Fault.REQUEST_LATE, at)

    def break_wire(self, fault: Fault, at: int) -> None:
        late = self.wire.late
        self.wire.cut(fault, at)
        self.wire.late = late  # it has not arrived yet

    @rule()
    def late_requests_arrive(self) -> None:
        # Calls without a slot are harmless when late, but not invisible: they extend a lease or move what is due.
        self.wire.deliver_late(lambda command: any(b":slot:" in word for word in command))


@pytest.mark.slow
def test_broken_connections_do_not_change_the_result_of_any_sequence_of_calls(
    world: World, wire: Proxy, *, full_faults: bool
) -> None:
    tell_stories(lambda: MachineOnAWire(world, wire), *((500, 60) if full_faults else (60, 40)))


class GroupsOnAWire(Groups):
    """The random calls of clients of a queue with groups, and faults."""

    def __init__(self, world: World, wire: Proxy, seed: str, policy: str, **rates: str) -> None:
        self.wire = wire
        self.wire.cut()
        super().__init__(world, seed, policy, **rates)

    def open(self, config: LeasedConfig) -> Any:
        return self.world.queue(config=config, on_event=self.listen, settings=self.wire.url)

    @property
    def queue(self) -> Any:
        """Break the wire now and then, before a client calls."""
        late = self.wire.late
        if late and self.chance.random() < 0.3:
            self.wire.deliver_late(lambda command: any(b":slot:" in word for word in command))
        if self.chance.random() < 0.2:
            late = self.wire.late
            self.wire.cut(self.chance.choice([*Fault]), self.chance.choice([0, 0, 1, 2]))
            self.wire.late = late
        return super().queue


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    ["exclusive", *(pytest.param(policy, marks=WHOLE) for policy in ("concurrent 2", 'fair {"a": 5, "b": 0.5}'))],
)
def test_broken_connections_break_no_promise_of_groups(
    world: World, wire: Proxy, policy: str, *, full_faults: bool
) -> None:
    for seed in range(20 if full_faults else 1):
        world.client.flushdb()
        rates = {"rate": "1500/1s burst 30", "group_rate": "700/1s"} if seed % 2 else {}
        GroupsOnAWire(world, wire, f"{policy} {seed}", policy, **rates).run(200 if full_faults else 100)
