"""Every operation on a queue, in any order, applied to a queue and to its model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from rmq_core import Isolation, Lease, MessageRef, Overflow, QueueFull
from rmq_core.reports import PublishReport
from tests.core.leased.bench import FOREVER, Bench, outcome
from tests.core.leased.values import Held
from tests.core.leased.view import shape

SOME = st.integers(0, 999)
IDS = st.sampled_from(["dag/run/task", "asset"])
OWNERS = st.sampled_from([None, "", "try 1", "try 2"])
KEYS = st.sampled_from([None, None, "k1", "k2", "k3"])
COUNTS = st.sampled_from([3, 1, 2, 10, 25])


class Machine(Bench):
    """The rules; each ends with both sides in the same state."""

    # Publishing

    @rule(key=KEYS, delayed=st.booleans())
    def publish(self, *, key: str | None, delayed: bool) -> None:
        key = None if self.queue.config.overflow == Overflow.DROP_OLDEST else key
        try:
            made = self.queue.publish("x", dedup_key=key, delay=FOREVER if delayed else None)
        except QueueFull:
            assert self.model.publish([key], delayed=delayed) is None
            return
        expected = self.model.publish([key], delayed=delayed)
        assert expected is not None
        assert made.accepted == (expected[0][0] is not None)
        self.name_items(expected[0], [made.id])

    @rule(keys=st.lists(KEYS, min_size=2, max_size=12), delayed=st.booleans())
    def publish_many(self, *, keys: list[str | None], delayed: bool) -> None:
        drop = self.queue.config.overflow == Overflow.DROP_OLDEST
        payloads = [None if drop else key for key in keys]
        named = all(payloads) and payloads
        full = False
        try:
            report = self.queue.publish_many(
                [key or "x" for key in payloads], dedup_key=str if named else None, delay=FOREVER if delayed else None
            )
        except QueueFull as error:
            full, report = True, error.report
        self.check_report(report, payloads if named else [None] * len(keys), full=full, delayed=delayed)

    def check_report(self, report: Any, keys: list[str | None], *, full: bool, delayed: bool) -> None:
        assert isinstance(report, PublishReport)
        accepted, dropped, at = 0, 0, 0
        step = self.queue.config.max_ready or 1000
        for first in range(0, len(keys), step):
            expected = self.model.publish(keys[first : first + step], delayed=delayed)
            if expected is None:
                assert full
                break
            self.name_items(expected[0], list(report.ids[first : first + step]))
            accepted += sum(item is not None for item in expected[0])
            dropped += expected[1]
            at = first + len(expected[0])
        else:
            assert not full
        assert report[:3] == (accepted, at - accepted, dropped)
        assert len(report.ids) == at

    def name_items(self, items: list[Any], ids: list[str | None]) -> None:
        for item, message_id in zip(items, ids, strict=True):
            if item is not None:
                assert message_id
                item.id = message_id

    @precondition(lambda self: self.model.delayed)
    @rule(which=SOME)
    def delay_ends(self, which: int) -> None:
        message_id, place = self.model.fall_due(which % len(self.model.delayed))
        for envelope in self.world.client.zrange(self.view.key("delayed"), 0, -1):
            if shape(envelope)[0] == message_id:
                self.world.client.zadd(self.view.key("delayed"), {envelope: place})

    # Claiming

    @rule(most=COUNTS, owner=OWNERS)
    def claim(self, most: int, owner: str | None) -> None:
        self.compare(
            lambda: self.queue.claim(max_messages=most, owner=owner), lambda: self.model.claim(None, owner or "", most)
        )

    @rule(most=COUNTS, owner=OWNERS, lease_id=IDS)
    def claim_named(self, most: int, owner: str | None, lease_id: str) -> None:
        self.compare(
            lambda: self.queue.claim(max_messages=most, owner=owner, lease_id=lease_id),
            lambda: self.model.claim(lease_id, owner or "", most),
        )

    @precondition(lambda self: self.handles)
    @rule(which=SOME, most=COUNTS)
    def claim_next(self, which: int, most: int) -> None:
        lease = self.handle(which)
        self.compare(
            lambda: self.queue.claim_next(ack=lease, max_messages=most),
            lambda: self.model.claim_next(lease.id, lease.token or "", most),
        )

    @rule(which=SOME, owner=OWNERS, if_owner=OWNERS)
    def adopt(self, which: int, owner: str | None, if_owner: str | None) -> None:
        lease_id = self.handle(which).id if self.handles else "asset"
        self.compare(
            lambda: self.queue.adopt(lease_id, owner=owner, if_owner=if_owner),
            lambda: self.model.adopt(lease_id, owner, if_owner),
        )

    def compare(self, real: Callable[[], Lease | None], expected: Callable[[], Held | None]) -> None:
        """Claim on both sides: the same refusal, or the same messages under a new token."""
        lease, refusal = outcome(real)
        self.model.claimed = [message.id for message in self.queue.read(lease)] if lease else []
        held, expected_refusal = outcome(expected)
        assert refusal == expected_refusal
        assert (lease is None) == (held is None)
        if lease is None or held is None:
            return
        assert lease.token not in self.tokens
        self.tokens.add(lease.token)
        assert not held.id or held.id == lease.id
        held.id, held.token = lease.id, lease.token
        self.model.held[lease.id] = held
        self.handles.append(lease)
        assert (lease.owner, lease.count, lease.takeovers) == (held.owner, len(held.items), held.takeovers)
        failures, group, most, _ = held.items[0].mark
        assert lease.isolation == (Isolation(failures, most) if group else None)
        self.read(-1)

    # Holding and settling

    @precondition(lambda self: self.handles)
    @rule(which=SOME)
    def read(self, which: int) -> None:
        lease = self.handle(which)
        found, refusal = outcome(lambda: self.queue.read(lease))
        expected, expected_refusal = outcome(lambda: self.model._holder(lease.id, lease.token or ""))
        assert refusal == expected_refusal
        if expected is not None:
            counted = expected.takeovers + 1
            assert [(message.id, message.deliveries) for message in found] == [
                (item.id, item.deliveries + counted) for item in expected.open
            ]
            assert {message.index for message in found} == set(range(len(expected.items))) - expected.settled

    @precondition(lambda self: self.handles)
    @rule(which=SOME)
    def extend(self, which: int) -> None:
        lease = self.handle(which)
        _, refusal = outcome(lambda: self.queue.extend(lease))
        assert refusal == outcome(lambda: self.model.extend(lease.id, lease.token or ""))[1]

    @precondition(lambda self: self.handles)
    @rule(which=SOME)
    def ack(self, which: int) -> None:
        lease = self.handle(which)
        self.settles(lambda: self.queue.ack(lease), lambda: self.model.ack(lease.id, lease.token or ""))

    @precondition(lambda self: self.handles)
    @rule(which=SOME, delayed=st.booleans())
    def nack(self, *, which: int, delayed: bool) -> None:
        lease = self.handle(which)
        self.settles(
            lambda: self.queue.nack(lease, delay=FOREVER if delayed else None, reason="it\tfailed\n"),
            lambda: self.model.give_back(lease.id, lease.token or "", "nack", delayed=delayed),
        )

    @precondition(lambda self: self.handles)
    @rule(which=SOME)
    def release(self, which: int) -> None:
        lease = self.handle(which)
        self.settles(
            lambda: self.queue.release(lease), lambda: self.model.give_back(lease.id, lease.token or "", "release")
        )

    def settles(self, real: Callable[[], Any], expected: Callable[[], tuple[int, int]]) -> None:
        report, refusal = outcome(real)
        counts, expected_refusal = outcome(expected)
        assert refusal == expected_refusal
        assert report is None or report[:2] == counts

    @precondition(lambda self: self.handles)
    @rule(
        which=SOME,
        verb=st.sampled_from(["ack", "nack", "release"]),
        places=st.lists(st.integers(0, 12), min_size=1, max_size=6),
        delayed=st.booleans(),
    )
    def settle_some(self, *, which: int, verb: str, places: list[int], delayed: bool) -> None:
        lease = self.handle(which)
        places = [place % (lease.count + 1) for place in places]  # one past the end is missing
        refs = [MessageRef(lease.id, place, "") for place in places]
        more = {"delay": FOREVER} if verb == "nack" and delayed else {}
        report = getattr(self.queue, verb)(lease, refs, **more)
        became = self.model.settle(lease.id, lease.token or "", verb, places, delayed=bool(more))
        assert list(report.outcomes) == [became[place] for place in places]
        assert report.settled == sum(outcome in {"settled", "dead"} for outcome in became.values())
        assert report.dead == sum(outcome == "dead" for outcome in became.values())

    @precondition(lambda self: self.model.held)
    @rule(which=SOME)
    def lease_expires(self, which: int) -> None:
        held = list(self.model.held.values())[which % len(self.model.held)]
        self.world.client.zadd(self.view.key("leases"), {held.id: self.model.expire(held)}, xx=True)

    # Inspecting and operating

    @rule()
    def backlog(self) -> None:
        assert self.queue.backlog().ready == self.model.backlog()

    @rule(most=st.sampled_from([None, 1, 2]))
    def redrive(self, most: int | None) -> None:
        assert self.queue.admin.redrive(most) == self.model.redrive(most)

    @rule(paused=st.booleans())
    def pause(self, *, paused: bool) -> None:
        self.model.paused = paused
        (self.queue.admin.pause if paused else self.queue.admin.resume)()

    @rule(which=SOME)
    def cancel(self, which: int) -> None:
        ids = [item.id for item in self.model.living()] or ["nothing"]
        assert self.queue.admin.cancel(ids[which % len(ids)]) == self.model.cancel(ids[which % len(ids)])

    @rule(key=st.sampled_from(["k1", "k2", "k3"]))
    def forget(self, key: str) -> None:
        assert self.queue.admin.forget(key) == (key in self.model.keys)
        self.model.keys.discard(key)

    @rule(what=st.sampled_from(["ready", "isolated", "delayed", "dead"]), really=st.integers(0, 3))
    def purge(self, what: str, really: int) -> None:
        if not really:  # seldom: purging makes for short histories
            assert self.queue.admin.purge(what) == self.model.purge(what)


def tell_stories(machine: Callable[[], Machine], examples: int, steps: int) -> None:
    """Run a machine through so many examples of up to so many steps."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            print_blob=True,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
