"""`RedisQueueSensorComponent`: request runs while a queue has work, and observe the queue."""

from __future__ import annotations

from typing import Any

import dagster as dg
from pydantic import Field

from rmq_dagster.assets.checks import Limit, QueueLimits
from rmq_dagster.components.base import QueueComponent
from rmq_dagster.components.scaffolding import SensorScaffolder
from rmq_dagster.definitions import redis_queue_definitions
from rmq_dagster.sensors.building import OBSERVE_EVERY_S


class LimitSettings(dg.Model, dg.Resolvable):
    """Bounds above which a check of a value fails."""

    warn: float | None = Field(default=None, description="Above this value the check fails with severity WARN.")
    error: float | None = Field(default=None, description="Above this value the check fails with severity ERROR.")


class LimitsSettings(dg.Model, dg.Resolvable):
    """Limits that the checks of the queue compare."""

    depth: LimitSettings | None = Field(default=None, description="Messages that are ready, delayed or leased.")
    oldest_age: LimitSettings | None = Field(default=None, description="Seconds the oldest message has been ready.")
    dead_letters: LimitSettings | None = Field(default=None, description="Messages that failed too often.")
    isolated: LimitSettings | None = Field(
        default=None, description="Ready messages that failed together before and are tried apart from the others."
    )
    lease_age: LimitSettings | None = Field(
        default=None, description="Seconds since the lease was claimed that is held the longest."
    )
    freshness: LimitSettings | None = Field(default=None, description="Seconds since the queue was observed.")

    def limits(self) -> QueueLimits:
        """Return the limits in the form that the checks take; dead letters are an error unless they have a limit."""
        return QueueLimits(**{name: Limit(**bounds) for name, bounds in self.model_dump().items() if bounds})


class Observing(dg.Model):
    """Fields of a component that observes queues."""

    running: bool = Field(default=True, description="Whether the sensors are switched on by default.")
    observe_every_seconds: float | None = Field(
        default=OBSERVE_EVERY_S,
        description="How often the queue is observed and its checks are evaluated, by a sensor and without a run; null"
        " leaves both to schedules of your own. At least 1.",
    )
    limits: LimitsSettings | None = Field(default=None, description="Limits to check; by default only dead letters.")

    @property
    def default_status(self) -> dg.DefaultSensorStatus:
        """Return whether the sensors are on when Dagster sees them for the first time."""
        return dg.DefaultSensorStatus.RUNNING if self.running else dg.DefaultSensorStatus.STOPPED

    @property
    def given_limits(self) -> QueueLimits | None:
        """Return the limits in the form that the checks take, or None if there are none."""
        return None if self.limits is None else self.limits.limits()


@dg.scaffold_with(SensorScaffolder)
class RedisQueueSensorComponent(Observing, QueueComponent):
    """A sensor that requests runs while a queue has work, status sensors, and the queue as an asset with checks."""

    target: str = Field(description="The assets that a run works on: a key, or a selection such as `group:flights`.")
    batch: int = Field(default=1, description="How many messages a run claims: its max_messages.")
    max_in_flight_runs: int = Field(default=10, description="Limit on requested runs that have yet to claim.")
    min_messages: int = Field(default=1, description="Request runs when this many messages are ready.")
    max_age_seconds: float | None = Field(
        default=None, description="Request runs also when the oldest message has waited this long."
    )
    repeat_after_seconds: float = Field(
        default=600, description="How long a run that left Dagster's queue counts as one that has yet to claim."
    )
    claim_for_seconds: float | None = Field(
        default=None, description="How long a tick claims messages for the run that it requests; read the guide first."
    )
    groups: list[str] | None = Field(
        default=None,
        description="Count, and with claim_for_seconds claim, only messages of these groups; the runs claim the same.",
    )
    minimum_interval_seconds: int | None = Field(default=None, description="Seconds between two ticks; None: 10.")
    publishers: list[dg.ResolvedAssetKey] = Field(
        default=[], description="The assets that publish: the lineage leads from them to the asset of the queue."
    )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:  # noqa: ARG002 - Dagster's signature
        """Return the sensors, the asset and its checks."""
        return redis_queue_definitions(
            self.queues, target=self.target, limits=self.given_limits,
            config=self.config, resource_key=self.resource_key, observe_every=self.observe_every_seconds,
            publishers=self.publishers, **self.sensor_options(),
        )  # fmt: skip

    def sensor_options(self) -> dict[str, Any]:
        """Return the options for build_redis_queue_sensor."""
        return {
            "batch": self.batch, "max_in_flight_runs": self.max_in_flight_runs, "min_messages": self.min_messages,
            "max_age": self.max_age_seconds, "repeat_after": self.repeat_after_seconds,
            "claim_for": self.claim_for_seconds, "minimum_interval_seconds": self.minimum_interval_seconds,
            "default_status": self.default_status, "groups": self.groups,
        }  # fmt: skip
