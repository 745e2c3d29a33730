"""Pools: a worker that is killed keeps its slot of a pool. Until the slot is free, the steps of the pool wait.

Dagster frees the slots of ended runs only if `run_monitoring.free_slots_after_run_end_seconds` is set, and it has no
default. So the status sensors free those of the runs that they settle; ticks and `rmq doctor` warn.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import dagster as dg

SETTING = "run_monitoring.free_slots_after_run_end_seconds"
ADVICE = (
    "set in dagster.yaml: run_monitoring: {enabled: true, free_slots_after_run_end_seconds: 60}; it needs the daemon"
)


def frees_slots(instance: dg.DagsterInstance) -> bool:
    """Return whether Dagster frees the slots of runs that have ended."""
    return bool(instance.run_monitoring_settings.get("free_slots_after_run_end_seconds"))


def free_slots(instance: dg.DagsterInstance, run_id: str) -> int:
    """Free the slots that an ended run still holds; return how many."""
    storage = instance.event_log_storage
    if not storage.supports_global_concurrency_limits:
        return 0
    held = run_id in storage.get_concurrency_run_ids()
    freed: Any = storage.free_concurrency_slots_for_run(run_id) if held else 0  # annotated as None, but it counts
    return int(freed or 0)


def pools_of(target: Any) -> set[str]:
    """Return the pools of the steps of a sensor's target; none for a target that is known only by its name."""
    if type(target) in {list, tuple}:  # Dagster's records are tuples, too
        return {pool for each in target for pool in pools_of(each)}
    if isinstance(target, dg.AssetsDefinition):
        return _of_node(target.node_def)
    if isinstance(target, dg.JobDefinition):
        return _of_node(target.graph)
    return _of_node(target)


def _of_node(node: Any) -> set[str]:
    if isinstance(node, dg.OpDefinition):
        return {node.pool} if node.pool else set()
    if isinstance(node, dg.GraphDefinition):
        return {pool for each in node.node_defs for pool in _of_node(each)}
    return set()


def findings() -> Iterator[tuple[str, str]]:
    """Yield each problem of Dagster's settings and how to solve it; `rmq doctor` calls this entry point.

    Yields nothing if `DAGSTER_HOME` is unset.
    """
    if os.environ.get("DAGSTER_HOME"):
        with dg.DagsterInstance.get() as instance:
            yield from _of_instance(instance)


def _of_instance(instance: dg.DagsterInstance) -> Iterator[tuple[str, str]]:
    if not instance.run_monitoring_enabled:
        yield "run monitoring is off: a run whose worker was killed stays STARTED for ever", ADVICE
    storage = instance.event_log_storage
    if not storage.supports_global_concurrency_limits:
        return
    pools = storage.get_concurrency_keys()
    if pools and not frees_slots(instance):
        yield f"{SETTING} is not set: a killed worker keeps its slot of a pool for good", ADVICE
    held = {pool: storage.get_concurrency_info(pool).claimed_slots for pool in sorted(pools)}
    owners = {slot.run_id for slots in held.values() for slot in slots}
    active = {run.run_id for run in instance.get_runs(dg.RunsFilter(run_ids=list(owners))) if not run.is_finished}
    for pool, slots in held.items():
        for slot in slots:
            if slot.run_id not in active:
                found = f"pool {pool!r}: step {slot.step_key!r} of run {slot.run_id}, which has ended, holds a slot"
                yield found, "free it on the page of the pool (Deployment, Concurrency), or " + ADVICE
