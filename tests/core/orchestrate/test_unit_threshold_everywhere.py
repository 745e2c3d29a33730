"""Each field of `Threshold` is an option of the same name in every interface, and every mode applies it."""

from __future__ import annotations

import asyncio
import contextlib
import pkgutil
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import fields
from math import inf
from typing import Any

import dagster as dg
import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from rmq_airflow import waiting
from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_airflow.triggers.watcher import RedisQueueDoorbellTrigger
from rmq_core import ConfigurationError
from rmq_core.asyncio import WaitHub
from rmq_core.orchestrate import Threshold
from rmq_core.orchestrate.waiting import BacklogPoller
from rmq_core.reports import Backlog
from rmq_dagster import RedisQueueResource, build_redis_queue_sensor
from rmq_dagster.runs.requesting import Doorbell

NAMES = [field.name for field in fields(Threshold)]
OPTIONS = [name.removesuffix("_s") for name in NAMES]
# A number for each. They descend, so that a future minimum age is below max_age. An option that takes no number needs
# another value.
GIVEN = dict(zip(OPTIONS, range(90, 0, -1), strict=False))
ENOUGH = Threshold(**dict(zip(NAMES, GIVEN.values(), strict=True)))
EMPTY = Backlog(0, None)
PATIENCE_S = 60


class Asked(Exception):
    """Raised in place of a decision; `args` holds the threshold that was to decide."""


class Client:
    """Looks like an asyncio client that cannot listen to channels."""

    async def execute_command(self, *_: Any) -> None: ...


class Queue:
    """A queue that is empty."""

    def backlog(self) -> Any:
        return EMPTY

    def close(self) -> None: ...


class AsyncQueue:
    """The same, for a trigger."""

    async def backlog(self) -> Backlog:
        return EMPTY

    async def close(self) -> None: ...


@contextlib.asynccontextmanager
async def a_hub(*_: Any) -> AsyncIterator[WaitHub]:
    async with WaitHub(Client()) as made:
        yield made


def sensor() -> RedisQueueSensor:
    return RedisQueueSensor(task_id="wait", redis_queue="q", deferrable=True, **GIVEN)


def trigger(*, rings: bool) -> Any:
    """Return the trigger of a sensor, made from its serialized form as the triggerer makes it."""
    made = sensor()
    made._notifies = rings
    path, arguments = made._trigger().serialize()
    return pkgutil.resolve_name(path)(**arguments)


def a_sensor() -> None:
    @dg.job
    def drain() -> None: ...

    resource = RedisQueueResource(url="redis://localhost:1")
    with (
        dg.DagsterInstance.ephemeral() as instance,
        dg.build_sensor_context(instance, resources={"redis_queue": resource}) as context,
    ):
        build_redis_queue_sensor("q", target=drain, **GIVEN)(context)


async def a_wait() -> None:
    async with a_hub() as hub:
        await hub.wait("q", **GIVEN)


async def watch() -> None:
    await anext(RedisQueueDoorbellTrigger("q", **GIVEN).run())


def a_plain_sensor() -> None:
    with dg.DagsterInstance.ephemeral() as instance, dg.build_sensor_context(instance) as context:
        RedisQueueResource(url="redis://localhost:1").run_requests(context, "q", **GIVEN)


def run(wait: Coroutine[Any, Any, Any]) -> None:
    asyncio.run(asyncio.wait_for(wait, PATIENCE_S))  # without a limit, a watcher retries any error for ever


MODES: dict[str, Callable[[], Any]] = {
    "WaitHub.wait": lambda: run(a_wait()),
    "a worker that polls": lambda: sensor().poke({}),
    "the trigger that Redis wakes": lambda: run(trigger(rings=True)._wait()),
    "the trigger that polls": lambda: run(trigger(rings=False)._wait()),
    "the asset watcher": lambda: run(watch()),
    "build_redis_queue_sensor": a_sensor,
    "run_requests": a_plain_sensor,
}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Redis: every mode polls an empty queue and reports which threshold it applies."""

    def ask(threshold: Threshold, _: Backlog) -> bool:
        raise Asked(threshold)

    async def poll(*_: Any) -> Any:
        return EMPTY, None

    async def open_async(*_: Any) -> AsyncQueue:
        return AsyncQueue()

    monkeypatch.setattr(Threshold, "met_by", ask)
    monkeypatch.setattr(BacklogPoller, "poll", poll)
    monkeypatch.setattr(waiting, "shared_hub", a_hub)
    monkeypatch.setattr(RedisQueueHook, "async_work_queue", open_async)
    monkeypatch.setattr(RedisQueueSensor, "_open", lambda _: Queue())
    monkeypatch.setattr(Doorbell, "needs", lambda doorbell, *_: doorbell.is_enough(EMPTY))


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_applies_every_option_of_the_threshold(mode: str) -> None:
    with pytest.raises(Asked) as asked:
        MODES[mode]()
    assert asked.value.args == (ENOUGH,)


@given(
    bounds=st.tuples(st.integers(1, 4), *(st.none() | st.integers(1, 20) for _ in NAMES[1:])),
    ready=st.integers(1, 5),
    age_s=st.integers(0, 20),
)
def test_met_in_returns_when_age_alone_will_meet_the_threshold(bounds: tuple[Any, ...], ready: int, age_s: int) -> None:
    try:
        threshold = Threshold(*bounds)
    except ConfigurationError:
        reject()  # bounds that contradict each other

    def met_after(pause_s: float) -> bool:
        return threshold.met_by(Backlog(ready, age_s + pause_s))

    assume(not met_after(0))
    pause_s = threshold.met_in(Backlog(ready, age_s), inf)
    if pause_s == inf:
        assert not met_after(9999)
    else:
        assert met_after(pause_s)
        assert not met_after(pause_s - 0.5)
