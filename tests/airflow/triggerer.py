"""Airflow's triggerer without its metadata database: a TriggerRunner in its own process, and its supervisor."""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar, overload

import attrs
from airflow.executors.workloads.trigger import RunTrigger
from airflow.jobs.triggerer_job_runner import TriggerRunnerSupervisor
from airflow.models.trigger import Trigger
from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import SyncToAsync

CAPACITY = 1200


class IdleTrigger(BaseTrigger):
    """A trigger that waits forever: the least that a trigger can cost."""

    def __init__(self, number: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.number = number

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "tests.airflow.triggerer.IdleTrigger", {"number": self.number}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await asyncio.Event().wait()
        yield TriggerEvent(self.number)


@attrs.define(kw_only=True)
class Supervisor(TriggerRunnerSupervisor):
    """Airflow's supervisor, with workloads from a list in place of the metadata database."""

    fired: dict[int, float] = attrs.field(factory=dict, init=False)

    def load_triggers(self) -> None:
        """Do nothing: all triggers were given at the start."""

    def clean_unused(self) -> None:
        """Do nothing: triggers that fired are removed without the database."""

    def heartbeat(self) -> None:
        """Do nothing: there is no job."""

    def metric_tags(self) -> dict[str, str]:
        return {"hostname": "tests"}

    def on_trigger_event(self, trigger_id: int, event: TriggerEvent) -> None:
        self.fired[trigger_id] = time.monotonic()

    def on_trigger_failure(self, trigger_id: int, exc: list[str] | None) -> None:
        raise RuntimeError(f"trigger {trigger_id} failed: {exc}")


S = TypeVar("S", bound=Supervisor)


@overload
def running(triggers: Sequence[BaseTrigger]) -> AbstractContextManager[Supervisor]: ...
@overload
def running(triggers: Sequence[BaseTrigger], kind: type[S], **options: Any) -> AbstractContextManager[S]: ...
@contextmanager
def running(triggers: Sequence[BaseTrigger], kind: Any = Supervisor, **options: Any) -> Iterator[Any]:
    """A supervisor with a TriggerRunner process that runs these triggers."""
    # The runner is a fork. What it inherits must not depend on a thread that earlier tests started in this process.
    SyncToAsync.single_thread_executor = ThreadPoolExecutor(max_workers=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # its own copy of the child's end of a socket pair
        supervisor = kind.start(job=None, capacity=CAPACITY, **options)
    for number, trigger in enumerate(triggers, 1):
        path, kwargs = trigger.serialize()
        encrypted = Trigger.encrypt_kwargs(kwargs)
        supervisor.creating_triggers.append(RunTrigger(id=number, classpath=path, encrypted_kwargs=encrypted))
    thread = threading.Thread(target=supervisor.run, daemon=True)
    thread.start()
    try:
        yield supervisor
    finally:
        supervisor.stop = True
        thread.join()
        supervisor.kill(escalation_delay=5, force=True)
        supervisor._cleanup_open_sockets()  # which Airflow closes only at the end of its own process
