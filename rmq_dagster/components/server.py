"""`RedisQueueServerComponent`: the queues of a server as assets, found when Dagster refreshes the component's state."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
from dagster.components import DefsStateConfig, DefsStateConfigArgs, ResolvedDefsStateConfig
from pydantic import Field

from rmq_core import QueueUnavailable, disciplines
from rmq_core.orchestrate import ALERTS
from rmq_dagster.components.scaffolding import ServerScaffolder
from rmq_dagster.components.sensor import LimitsSettings, Observing
from rmq_dagster.discovered import discovered_definitions, matching
from rmq_dagster.resources import TICK_TIMEOUT_S, RedisQueueResource

log = logging.getLogger(__name__)


def _resource(context: dg.ResolutionContext, fields: Any) -> RedisQueueResource:
    return RedisQueueResource(**context.resolve_value(fields))


@dg.scaffold_with(ServerScaffolder)
class RedisQueueServerComponent(Observing, dg.StateBackedComponent, dg.Resolvable, dg.Model):
    """Each queue of a server as an asset with checks and a freshness policy, and a sensor that observes all of them.

    Dagster asks the server for its queues when it refreshes the state of the component (`dg utils refresh-defs-state`,
    and `dg dev` when it starts), so loading a code location needs no Redis. If the server does not answer, the queues
    of the last refresh stay.
    """

    server: Annotated[
        RedisQueueResource,
        dg.Resolver(
            _resource,
            model_field_type=dict[str, str],
            description="The connection for the refresh, where Dagster has no resources: the fields of"
            " RedisQueueResource, such as url and password.",
        ),
    ]
    queues: list[str] = Field(
        default=["*"], description="Patterns of the names of queues; those that match a pattern with `!` are left out."
    )
    key_prefix: str = Field(
        default="redis", description="The first part of the assets' keys, and their group; another one for each server."
    )
    limits: LimitsSettings | None = Field(
        default=None, description="Limits to check; by default those of RMQ's alerts: age, dead letters, isolated."
    )
    stale_after_seconds: float | None = Field(
        default=1800, description="The freshness policy: how old the newest observation may be. null: no policy."
    )
    resource_key: str = Field(default="redis_queue", description="The key of the project's RedisQueueResource.")
    defs_state: ResolvedDefsStateConfig = DefsStateConfigArgs.local_filesystem()

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """Return where the state is stored, and under which key."""
        return DefsStateConfig.from_args(self.defs_state, default_key=f"{type(self).__name__}[{self.key_prefix}]")

    def write_state_to_path(self, state_path: Path) -> None:
        """Write the names and disciplines of all queues. Raises QueueUnavailable."""
        with self.server.client(TICK_TIMEOUT_S) as redis:
            found = disciplines(redis)
        state_path.write_text(json.dumps({"queues": found}, sort_keys=True), "utf-8")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the definitions; keep those of the last state when an automatic refresh finds no server."""
        try:
            return super().build_defs(context)
        except QueueUnavailable as error:
            if not self.defs_state.refresh_if_dev:
                raise
            log.warning("%s keeps the queues of its last refresh: %s", self.defs_state_config.key, error)
        kept = self.defs_state.model_copy(update={"refresh_if_dev": False})
        return self.model_copy(update={"defs_state": kept}).build_defs(context)

    def build_defs_from_state(
        self, context: dg.ComponentLoadContext, state_path: Path | None  # noqa: ARG002 - Dagster's signature
    ) -> dg.Definitions:  # fmt: skip
        """Return the assets, their checks and the sensor; nothing before the first refresh."""
        if state_path is None:
            log.warning("%s has no queues yet: run `dg utils refresh-defs-state`", self.defs_state_config.key)
            return dg.Definitions()
        found: dict[str, str] = json.loads(state_path.read_text("utf-8"))["queues"]
        return discovered_definitions(
            {name: found[name] for name in matching(found, self.queues)}, prefix=self.key_prefix,
            limits=self.given_limits or ALERTS.stats, every=self.observe_every_seconds,
            stale_after=self.stale_after_seconds, resource_key=self.resource_key, chosen=self.queues,
            default_status=self.default_status,
        )  # fmt: skip
