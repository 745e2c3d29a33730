"""The round trips of each method of `LeasedQueue`: requests that wait for an answer, as its page states them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest
import redis

from rmq_core import Lease, LeasedConfig, LeasedQueue, Match, Stage
from rmq_core.kernel.base import tools_of
from tests.core.test_interposed import listed


class Counting:
    """A driver that counts its requests: each request, or each batch of them, that is answered before the next one."""

    def __init__(self, driver: Any) -> None:
        self._driver, self.trips = driver, 0

    def run(self, exchange: Any, *patience: Any) -> Any:
        return self._driver.run(self._counted(exchange), *patience)

    def close(self) -> None:
        self._driver.close()

    def _counted(self, exchange: Any) -> Iterator[Any]:
        reply = None
        while True:
            try:
                wanted = exchange.send(reply)
            except StopIteration as ended:
                return ended.value
            self.trips += 1
            reply = yield wanted


@pytest.fixture
def queue(redis_client: redis.Redis, server_url: str) -> Iterator[LeasedQueue]:
    """A queue that is registered, with two ready messages."""
    with LeasedQueue(server_url, "costs", LeasedConfig(max_deliveries=1, history=False)) as opened:
        opened.publish_many(["one", "two"])
        yield opened


def held(queue: LeasedQueue, **what: Any) -> Lease:
    lease = queue.claim(**what)
    assert lease is not None
    return lease


def owner(queue: LeasedQueue) -> None:
    for _ in range(2):
        queue.publish("x")
        held(queue, owner="me")


def dead(queue: LeasedQueue) -> str:
    lease = held(queue)
    queue.nack(lease)
    return lease.message.id


def staged(queue: LeasedQueue) -> Stage:
    return queue.stage(["one", "two"])


def counted(queue: LeasedQueue) -> None:
    queue.admin.configure(groups="fair")


RUN = {"run": "r", "stream": "s", "alive": 60}
Case = tuple[Callable[[LeasedQueue], Any], Callable[[LeasedQueue, Any], Any]]
CASES: dict[str, Case] = {
    "publish": (lambda _: None, lambda queue, _: queue.publish("three")),
    "publish_many": (lambda _: None, lambda queue, _: queue.publish_many(str(number) for number in range(4000))),
    "stage": (lambda _: None, lambda queue, _: queue.stage(str(number) for number in range(4000))),
    "publish_staged": (staged, lambda queue, stage: queue.publish_staged([stage])),
    "publication": (counted, lambda queue, _: queue.publication("p")),
    "open_publication": (counted, lambda queue, _: queue.open_publication("p")),
    "close_publication": (counted, lambda queue, _: queue.close_publication("p")),
    "drop_staged": (staged, lambda queue, stage: queue.drop_staged([stage])),
    "claim": (lambda _: None, lambda queue, _: queue.claim(max_messages=2)),
    "claim_next": (held, lambda queue, lease: queue.claim_next(ack=lease)),
    "adopt": (held, lambda queue, lease: queue.adopt(lease.id)),
    "join": (held, lambda queue, lease: queue.join(lease.id)),
    "extend": (held, lambda queue, lease: queue.extend(lease)),
    "ack": (held, lambda queue, lease: queue.ack(lease)),
    "nack": (held, lambda queue, lease: queue.nack(lease)),
    "release": (held, lambda queue, lease: queue.release(lease)),
    "release_lease": (held, lambda queue, lease: queue.admin.release_lease(lease.id)),
    "process": (lambda _: None, lambda queue, _: queue.process().__enter__() and None),
    "run": (lambda _: Event(), lambda queue, stop: queue.run(lambda _: stop.set(), max_messages=2, stop=stop)),
    "messages": (held, lambda queue, lease: list(queue.messages(lease))),
    "read": (held, lambda queue, lease: queue.read(lease)),
    "read_arrow": (held, lambda queue, lease: queue.read_arrow(lease)),
    "backlog": (lambda _: None, lambda queue, _: queue.backlog()),
    "export_page": (lambda _: None, lambda queue, _: tools_of(queue).export_page("ready")),
    "import_chunk": (lambda _: None, lambda queue, _: tools_of(queue).import_chunk("file", "", "1", [])),
    "import_progress": (lambda _: None, lambda queue, _: tools_of(queue).import_progress("file")),
    "server_time": (lambda _: None, lambda queue, _: queue.admin.server_time()),
    "unregister": (lambda queue: queue.admin.purge("ready"), lambda queue, _: queue.admin.unregister()),
    "stats": (held, lambda queue, _: queue.stats()),
    "leases": (held, lambda queue, _: queue.admin.leases()),
    "lease_info": (held, lambda queue, lease: queue.lease_info(lease.id)),
    "settled": (lambda _: None, lambda queue, _: queue.settled("run-1")),
    "peek": (lambda _: None, lambda queue, _: queue.admin.peek(2)),
    "dead_letters": (dead, lambda queue, _: queue.admin.dead_letters()),
    "browse": (lambda _: None, lambda queue, _: queue.admin.browse("ready")),
    "browse_lease": (held, lambda queue, lease: queue.admin.browse_lease(lease.id, 0, 1)),
    "redrive": (dead, lambda queue, _: queue.admin.redrive(1)),
    "redrive_some": (dead, lambda queue, message_id: queue.admin.redrive_some([message_id])),
    "edit": (dead, lambda queue, message_id: queue.admin.edit(message_id, "edited")),
    "discard": (dead, lambda queue, message_id: queue.admin.discard([message_id])),
    "dead_reasons": (dead, lambda queue, _: queue.admin.dead_reasons()),
    "search": (dead, lambda queue, _: queue.admin.search("dead", Match(text="one"))),
    "run_now": (
        lambda queue: queue.publish("x", delay=60).id,
        lambda queue, message_id: queue.admin.run_now(message_id),
    ),
    "expire_lease": (held, lambda queue, lease: queue.admin.expire_lease(lease.id)),
    "release_leases": (owner, lambda queue, _: queue.admin.release_leases("me")),
    "expire_leases": (owner, lambda queue, _: queue.admin.expire_leases("me")),
    "remembered": (lambda _: None, lambda queue, _: queue.admin.remembered("key")),
    "purge": (lambda _: None, lambda queue, _: queue.admin.purge("ready")),
    "pause": (lambda _: None, lambda queue, _: queue.admin.pause()),
    "resume": (lambda _: None, lambda queue, _: queue.admin.resume()),
    "cancel": (lambda queue: queue.publish("x").id, lambda queue, message_id: queue.admin.cancel(message_id)),
    "dead_letter": (lambda queue: queue.publish("x").id, lambda queue, message_id: queue.admin.dead_letter(message_id)),
    "forget": (lambda _: None, lambda queue, _: queue.admin.forget("key")),
    "register_consumer": (lambda _: None, lambda queue, _: tools_of(queue).register_consumer("c", **RUN)),
    "renew_consumer": (
        lambda queue: tools_of(queue).register_consumer("c", **RUN),
        lambda queue, _: tools_of(queue).renew_consumer("c", **RUN),
    ),
    "history": (lambda _: None, lambda queue, _: queue.admin.history()),
    "totals": (lambda _: None, lambda queue, _: queue.admin.totals()),
    "marks": (lambda _: None, lambda queue, _: queue.admin.marks()),
    "why": (lambda queue: queue.publish("x").id, lambda queue, message_id: queue.admin.why(message_id)),
    "journal": (lambda _: None, lambda queue, _: queue.admin.journal()),
    "mark": (lambda _: None, lambda queue, _: queue.admin.mark("deployed")),
    "configure": (lambda _: None, lambda queue, _: queue.admin.configure(max_deliveries=5)),
    "groups": (lambda _: None, lambda queue, _: queue.admin.groups()),
    "publications": (counted, lambda queue, _: queue.admin.publications()),
    "clients": (lambda _: None, lambda queue, _: queue.admin.clients()),
    "settings": (lambda _: None, lambda queue, _: queue.admin.settings()),
    "extend_all": (held, lambda queue, lease: queue.extend_all([(lease, None)])),
    "close": (lambda _: None, lambda queue, _: queue.close()),
}


TRIPS = dict.fromkeys(CASES, 1) | {
    "cancel": 2, "close": 0, "configure": 3, "dead_letter": 2, "discard": 2, "leases": 2, "messages": 0,
    "publish_many": 2,
    "publish_staged": 5, "publications": 2, "edit": 2, "expire_leases": 4, "redrive_some": 2, "release_lease": 2,
    "release_leases": 6, "run": 2, "run_now": 2, "search": 2, "stage": 2, "stats": 2, "why": 5,
}  # fmt: skip


def test_each_operation_has_its_number_of_round_trips_here() -> None:
    assert listed("leased") - set(CASES) == set()


@pytest.mark.parametrize("name", CASES)
def test_a_method_takes_as_few_round_trips_as_it_can(queue: LeasedQueue, name: str) -> None:
    prepare, call = CASES[name]
    given = prepare(queue)
    driver = queue._driver = Counting(queue._driver)  # type: ignore[assignment]
    call(queue, given)
    assert driver.trips == TRIPS[name]
