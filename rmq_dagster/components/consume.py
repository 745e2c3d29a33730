"""`RedisQueueConsumeComponent`: an asset whose runs call a Python function for the messages of a queue."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from rmq_core import ConfigurationError, LeaseLost, Message
from rmq_core.orchestrate import check_done, is_awaited
from rmq_dagster.components.base import MessageAssetComponent, function_at
from rmq_dagster.components.scaffolding import ConsumeScaffolder
from rmq_dagster.runs.claiming import ClaimedBatch

Function = Callable[..., Any]
THROUGH = (LeaseLost, dg.Failure, dg.RetryRequested)
"""Errors of a function that concern the step, not its message."""


@dg.scaffold_with(ConsumeScaffolder)
class RedisQueueConsumeComponent(MessageAssetComponent):
    """An asset: its run claims messages and calls a Python function, for each of them or for all at once.

    A function that has a parameter `context` gets the context of the step as well. `per: message`: a message is acked
    when the function returns. `per: batch`: the function gets a ClaimedBatch, may settle messages by itself, and the
    others are acked when it returns; the mapping that it may return is added to the metadata of the asset.
    """

    function: str = Field(description="The function that works: package.module.name, or .module.name beside defs.yaml.")
    per: Literal["message", "batch"] = Field(
        default="message", description="Call the function for each `message`, or once for the `batch`."
    )
    on_error: Literal["nack", "fail"] = Field(
        default="nack",
        description="With `per: message`, when the function raises: nack that message and go on with the next one, or"
        " fail the step, which keeps the messages for its retries.",
    )

    def materialized(
        self, context: dg.AssetExecutionContext, loading: dg.ComponentLoadContext
    ) -> dg.MaterializeResult[Any]:
        """Call the function that is named, relative to the component's folder."""
        name = self.function
        package = loading.defs_relative_module_name(loading.path) if name.startswith(".") else ""
        return self.execute(context, _called_with(function_at("function", name, package), context))

    def execute(self, context: dg.AssetExecutionContext, function: Function) -> dg.MaterializeResult[Any]:
        """Claim, call the function and report. Override it to add logic that YAML cannot express.

        Raises dg.Failure when every message failed: a run that did nothing must not look like one that succeeded.
        """
        terms: dict[str, Any] = {"max_messages": self.max_messages, "on_settled": self.on_settled}
        terms["sequential"] = self.per != "batch"
        with self.redis(context).claimed(context, self.queues, config=self.config, **terms) as batch:
            found = self.work(context, batch, function) if batch else {}
            result = dg.MaterializeResult[Any](metadata={**found, **_counted(batch), **batch.metadata})
        if batch and batch.failed == len(batch):
            raise dg.Failure(
                f"All {len(batch)} message(s) failed; {batch.dead} of them are dead letters now.", allow_retries=False
            )
        return result

    def work(self, context: dg.AssetExecutionContext, batch: ClaimedBatch, function: Function) -> Mapping[str, Any]:
        """Call the function for the messages of a batch; return metadata."""
        if self.per == "batch":
            if not batch.any_fits():  # the codec of the queue refuses all payloads
                return {}
            return _mapping(self.function, function(batch))
        for message in batch:
            batch.check()
            if self.works(context, batch, message, function):
                batch.ack(message)
        return {}

    def works(
        self, context: dg.AssetExecutionContext, batch: ClaimedBatch, message: Message, function: Function
    ) -> bool:
        """Return whether the function succeeded for a message; nack the message if not."""
        try:
            result = function(message)
        except THROUGH:
            raise
        except Exception as error:
            if self.on_error == "fail":
                raise
            context.log.exception("Message %s failed and is nacked", message.id)
            batch.nack(message, reason=f"{type(error).__name__}: {error}"[:500])
            return False
        check_done(self.function, result)
        return True


def _called_with(function: Function, context: dg.AssetExecutionContext) -> Function:
    """Return the function with the context of the step bound, if it wants one. Raises ConfigurationError."""
    if is_awaited(function):
        raise ConfigurationError("function must not be async: Dagster would ack messages before it has run")
    try:
        wants = "context" in inspect.signature(function).parameters
    except ValueError:  # a function in C that does not say
        wants = False
    return (lambda given: function(given, context=context)) if wants else function


def _mapping(name: str, returned: object) -> Mapping[str, Any]:
    if returned is None:
        return {}
    if isinstance(returned, Mapping):
        return returned
    raise dg.Failure(
        f"{name} must return nothing, or a mapping of metadata, not {type(returned).__name__}", allow_retries=False
    )


def _counted(batch: ClaimedBatch) -> dict[str, int]:
    counts = {"rmq/nacked": batch.failed, "rmq/dead": batch.dead, "rmq/released": batch.released}
    return {name: count for name, count in counts.items() if count}
