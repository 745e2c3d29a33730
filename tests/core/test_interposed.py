"""Each operation of several requests, while somebody pauses, resumes, purges or lets leases expire in between."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
import redis

import rmq_core
from rmq_core import LeaseAlreadySettled, LeaseLost, Match, RedisMessageQueueError, Unsupported
from rmq_core.envelope.codec import split
from rmq_core.errors import QueueNotEmpty
from rmq_core.exchange import Exchange
from rmq_core.jobs.repeating import Every, Repeat
from rmq_core.kernel.base import Method, tools_of
from rmq_core.messages import NewMessage
from rmq_core.protocol import DISCIPLINES
from tests.core.admin.test_verbs import killed
from tests.core.conformance.kits import KITS, LONG_S

LETTERS = ("jobs", "leased", "reliable")


def payload_of(discipline: str, number: int) -> Any:
    return f"order-{number}" if discipline == "rotation" else {"order": number}


class Scene(NamedTuple):
    """A queue with messages in every state that its discipline has. other: another client of the same queue."""

    queue: Any
    other: Any
    client: redis.Redis
    discipline: str
    lease: Any
    ids: list[str]
    dead: str
    delayed: str

    def payload(self, number: int = 100) -> Any:
        return payload_of(self.discipline, number)


def counted(queue: Any) -> Any:
    queue.admin.configure(groups="fair")
    return queue


WHERE = Match(text="order")
CALLS: dict[str, Callable[[Scene], Any]] = {
    "ack": lambda s: s.queue.ack(s.lease),
    "add": lambda s: s.queue.add("job", {}),
    "add_bulk": lambda s: s.queue.add_bulk([{"name": "job", "data": {}}]),
    "add_unique": lambda s: s.queue.add_unique("job", {}, job_id="new"),
    "adopt": lambda s: s.queue.adopt("held"),
    "backlog": lambda s: s.queue.backlog(),
    "backlog_stats": lambda s: s.queue.backlog_stats(),
    "browse": lambda s: s.queue.admin.browse("ready"),
    "browse_lease": lambda s: s.queue.admin.browse_lease("held"),
    "cancel": lambda s: s.queue.admin.cancel(s.ids[-1]),
    "cancel_delayed": lambda s: s.queue.cancel_delayed(s.delayed),
    "claim": lambda s: s.queue.claim(max_messages=5),
    "groups": lambda s: s.queue.admin.groups(),
    "shards": lambda s: s.queue.admin.shards(),
    "clients": lambda s: s.queue.admin.clients(),
    "configure": lambda s: s.queue.admin.configure(max_dead=5_000),
    "claim_next": lambda s: s.queue.claim_next(ack=s.lease, max_messages=5),
    "claim_stale": lambda s: s.queue.claim_stale(),
    "dead_letter": lambda s: s.queue.admin.dead_letter(s.ids[-1]),
    "dead_letters": lambda s: s.queue.admin.dead_letters(),
    "dead_reasons": lambda s: s.queue.admin.dead_reasons(),
    "discard": lambda s: s.queue.admin.discard([s.dead]),
    "drop_staged": lambda s: s.queue.drop_staged([s.queue.stage([s.payload()])]),
    "enqueue": lambda s: s.queue.enqueue({}),
    "events_position": lambda s: s.queue.events_position(),
    "expire_lease": lambda s: s.queue.admin.expire_lease("held"),
    "expire_leases": lambda s: s.queue.admin.expire_leases("holder"),
    "export_page": lambda s: [list(pages_of(s.queue, state)) for state in tools_of(s.queue).stored_states],
    "extend": lambda s: s.queue.extend(s.lease),
    "forget": lambda s: s.queue.admin.forget("key"),
    "get_repeatable_jobs": lambda s: s.queue.get_repeatable_jobs(),
    "get_result": lambda s: s.queue.get_result(s.ids[0]),
    "get_results": lambda s: s.queue.get_results(s.ids),
    "history": lambda s: s.queue.admin.history(),
    "mark": lambda s: s.queue.admin.mark("now"),
    "marks": lambda s: s.queue.admin.marks(),
    "totals": lambda s: s.queue.admin.totals(),
    "import_chunk": lambda s: tools_of(s.queue).import_chunk("file", "", "1", [stored_again(s)]),
    "import_progress": lambda s: tools_of(s.queue).import_progress("file"),
    "join": lambda s: s.queue.join("held"),
    "lease_info": lambda s: s.queue.lease_info("held"),
    "leases": lambda s: s.queue.admin.leases(),
    "mark_done": lambda s: s.queue.mark_done(s.ids[0]),
    "nack": lambda s: s.queue.nack(s.lease),
    "pause": lambda s: s.queue.admin.pause(),
    "peek": lambda s: s.queue.admin.peek(5),
    "peek_dlq": lambda s: s.queue.peek_dlq(),
    "promote": lambda s: s.queue.promote(),
    "publish": lambda s: s.queue.publish(s.payload()),
    "publish_many": lambda s: s.queue.publish_many([s.payload(), s.payload(101)]),
    "publications": lambda s: s.queue.admin.publications(),
    "publication": lambda s: counted(s.queue).publication("p"),
    "open_publication": lambda s: counted(s.queue).open_publication("p"),
    "close_publication": lambda s: counted(s.queue).close_publication("p"),
    "publish_staged": lambda s: s.queue.publish_staged([s.queue.stage([s.payload()])], sink="s", batch=1),
    "purge": lambda s: [s.queue.admin.purge(which) for which in states_of(s)],
    "push": lambda s: s.queue.push("id"),
    "read": lambda s: s.queue.read(*(() if s.discipline == "streams" else (s.lease,))),
    "read_arrow": lambda s: s.queue.read_arrow(s.lease),
    "read_events": lambda s: s.queue.read_events("0-0", 1),
    "journal": lambda s: s.queue.admin.journal(),
    "reap": lambda s: s.queue.reap(),
    "redrive": lambda s: s.queue.admin.redrive(),
    "edit": lambda s: s.queue.admin.edit(s.dead, s.payload()),
    "redrive_some": lambda s: s.queue.admin.redrive_some([s.dead]),
    "register_consumer": lambda s: tools_of(s.queue).register_consumer("me", run="r", stream="s", alive=9),
    "release": lambda s: s.queue.release(s.lease),
    "release_leases": lambda s: s.queue.admin.release_leases("holder"),
    "release_lease": lambda s: s.queue.admin.release_lease("held"),
    "remembered": lambda s: s.queue.admin.remembered("key"),
    "remove_repeatable": lambda s: s.queue.remove_repeatable("none"),
    "renew_consumer": lambda s: tools_of(s.queue).register_consumer("me", run="r", stream="s", alive=9),
    "replay_dlq": lambda s: s.queue.replay_dlq(),
    "resume": lambda s: s.queue.admin.resume(),
    "run_now": lambda s: s.queue.admin.run_now(s.delayed),
    "safe_pop": lambda s: s.queue.safe_pop(),
    "search": lambda s: [list(found_in(s.queue, state)) for state in tools_of(s.queue).stored_states],
    "server_time": lambda s: s.queue.admin.server_time(),
    "settings": lambda s: s.queue.admin.settings(),
    "settled": lambda s: s.queue.settled("held"),
    "stage": lambda s: s.queue.stage([s.payload(), NewMessage(s.payload(101))]),
    "stats": lambda s: s.queue.stats(),
    "trim": lambda s: s.queue.trim(),
    "unregister": lambda s: s.queue.admin.unregister(),
    "upsert_repeatable_job": lambda s: s.queue.upsert_repeatable_job("job", repeat=Repeat(Every(60))),
    "wait_for_result": lambda s: s.queue.wait_for_result(s.ids[0], 0.01),
    "why": lambda s: s.queue.admin.why(s.ids[-1]),
}
MORE: dict[str, Callable[[Scene], Any]] = {
    "ack of some": lambda s: s.queue.ack(s.lease, s.lease.messages[:2]),
    "nack of some": lambda s: s.queue.nack(s.lease, s.lease.messages[:2]),
    "release of some": lambda s: s.queue.release(s.lease, s.lease.messages[:2]),
    "purge by conditions": lambda s: [s.queue.admin.purge(which, where=WHERE) for which in states_of(s)],
    "redrive by conditions": lambda s: s.queue.admin.redrive(where=WHERE),
    "takeover": lambda s: s.queue.claim(lease_id="held"),
}
REMOVING = {"ack", "ack of some", "cancel", "cancel_delayed", "claim_next", "discard", "mark_done", "purge"}
REMOVING |= {"purge by conditions", "edit", "expire_lease", "expire_leases"}
"""The calls after which a message may be missing, because they remove it or hold it in a lease that they end."""


def expired(scene: Scene) -> None:
    kit = KITS[scene.discipline]
    if kit.let_pass is not None:
        kit.let_pass(scene.client, "q", 2 * LONG_S)
    if kit.expire is not None:
        kit.expire(scene.client, "q")
    scene.other.backlog()
    if kit.recover is not None:
        kit.recover(scene.other)


EXPECTED = LeaseLost, LeaseAlreadySettled, QueueNotEmpty, TimeoutError, Unsupported
BETWEEN: dict[str, Callable[[Scene], Any]] = {
    "pause": lambda s: s.other.admin.pause(),
    "resume": lambda s: s.other.admin.resume(),
    "purge": lambda s: [s.other.admin.purge(which) for which in states_of(s)],
    "expiry": expired,
}


class Interposed:
    """A driver that lets somebody else act after the request of this number."""

    def __init__(self, driver: Any, after: int, act: Callable[[], object]) -> None:
        self._driver, self._after, self._act = driver, after, act
        self.requests = 0

    def run(self, exchange: Exchange[Any], *more: Any) -> Any:
        return self._driver.run(self._between(exchange), *more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def _between(self, exchange: Exchange[Any]) -> Exchange[Any]:
        step: Any = next
        given: tuple[Any, ...] = (exchange,)
        while True:
            try:
                want = step(*given)
            except StopIteration as stop:
                return stop.value
            try:
                reply = yield want
            except RedisMessageQueueError as error:
                step, given = exchange.throw, (error,)
            else:
                step, given = exchange.send, (reply,)
            self.requests += 1
            if self.requests == self._after:
                self._act()


def states_of(scene: Scene) -> list[str]:
    return ["ready", *(["delayed"] if scene.discipline in {"leased", "jobs"} else []), *DEAD[scene.discipline]]


DEAD = {name: ["dead"] if name in LETTERS else [] for name in DISCIPLINES}


def pages_of(queue: Any, state: str) -> Iterator[Any]:
    cursor: Any = ()
    while cursor is not None:
        page = tools_of(queue).export_page(state, cursor)
        yield from page.messages
        cursor = page.cursor


def found_in(queue: Any, state: str) -> Iterator[Any]:
    after, first = None, True
    while after is not None or first:
        page = queue.admin.search(state, WHERE, after=after)
        yield from page.messages
        after, first = page.after, False


def stored_again(scene: Scene) -> Any:
    page = tools_of(scene.other).export_page("ready", ())
    while not page.messages:
        page = tools_of(scene.other).export_page("ready", page.cursor)
    return tools_of(scene.other).import_entry(page.messages[0])


def ids_in(queue: Any) -> Counter[str]:
    return Counter(
        split(message.envelope).id for state in tools_of(queue).stored_states for message in pages_of(queue, state)
    )


def listed(discipline: str) -> set[str]:
    kind = DISCIPLINES[discipline].load()
    bases = [base for part in (kind, kind.admin, kind._tools) for base in part.__mro__]
    return {name for base in bases for name, each in vars(base).items() if isinstance(each, Method)}


@pytest.fixture
def scene_of(redis_client: redis.Redis, server_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Make scenes, with pages of two messages."""
    for name, module in list(sys.modules.items()):
        if name.startswith("rmq_core.") and isinstance(getattr(module, "PAGE", None), int):
            monkeypatch.setattr(module, "PAGE", 2)
    opened: list[Any] = []

    def scene(discipline: str, *, paused: bool = False) -> Scene:
        while opened:
            opened.pop().close()
        redis_client.flushdb()
        config = KITS[discipline].config("q", LONG_S)
        queue, other = (rmq_core.open_queue(server_url, "q", discipline, config) for _ in range(2))
        opened.extend((queue, other))
        dead = delayed = ""
        if discipline in LETTERS:
            killed(queue, ["a", "b", "c"])
            dead = queue.admin.dead_letters()[0].id
        ids = queue.publish_many([payload_of(discipline, number) for number in range(12)]).ids
        named = {"lease_id": "held", "owner": "holder"} if discipline in {"leased", "jobs"} else {}
        lease = queue.claim(max_messages=4, **named)
        if discipline in {"leased", "jobs"}:
            other.claim(lease_id="late", max_messages=2)
            delayed = queue.publish_many([payload_of(discipline, 20 + n) for n in range(3)], delay=LONG_S).ids[0]
        if paused:
            queue.admin.pause()
        return Scene(queue, other, redis_client, discipline, lease, list(ids), dead, delayed)

    yield scene
    while opened:
        opened.pop().close()


def trials(discipline: str) -> Iterator[tuple[str, Callable[[Scene], Any]]]:
    assert listed(discipline) <= set(CALLS), f"CALLS has no call of {listed(discipline) - set(CALLS)}"
    yield from ((name, CALLS[name]) for name in sorted(listed(discipline)))
    yield from ((name, call) for name, call in MORE.items() if discipline in {"leased", "jobs"} or "of" in name)


REQUESTS: dict[str, dict[str, int]] = {}
"""How many requests each operation of a discipline sends while no other client acts; counted once."""


def requests_of(scene_of: Callable[..., Scene], discipline: str) -> dict[str, int]:
    if discipline not in REQUESTS:
        counted = {}
        for name, call in trials(discipline):
            scene = scene_of(discipline)
            driver = scene.queue._driver = Interposed(scene.queue._driver, 0, lambda: None)
            with suppress(*EXPECTED):
                call(scene)
            counted[name] = driver.requests
        REQUESTS[discipline] = counted
    return REQUESTS[discipline]


def acts() -> Iterator[Any]:
    for discipline in DISCIPLINES:
        paused = ("pause", "resume") if discipline in {"leased", "jobs"} else ()
        yield from (pytest.param(discipline, act, id=f"{discipline}-{act}") for act in (*paused, "purge", "expiry"))


@pytest.mark.parametrize(("discipline", "act"), [*acts()])
def test_what_others_do_between_two_requests_breaks_no_operation_and_loses_no_message(
    scene_of: Callable[..., Scene], discipline: str, act: str
) -> None:
    requests = requests_of(scene_of, discipline)
    assert {"search", "export_page"} & listed(discipline) <= {name for name, count in requests.items() if count > 1}
    wrong = []
    for name, call in trials(discipline):
        for after in range(1, min(requests[name], 20)):
            scene = scene_of(discipline, paused=act == "resume")
            before = ids_in(scene.other)
            scene.queue._driver = Interposed(scene.queue._driver, after, lambda s=scene: BETWEEN[act](s))
            try:
                call(scene)
            except EXPECTED:
                pass
            except Exception as error:  # all are shown at the end
                wrong.append(f"{name}, after {after} requests: {error!r}")
            missing = before - ids_in(scene.other)
            if missing and act != "purge" and name not in REMOVING:
                wrong.append(f"{name}, after {after} requests: lost {missing}, and it is not in REMOVING")
    assert not wrong, "\n".join(wrong)
