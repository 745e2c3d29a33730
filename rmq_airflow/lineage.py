"""Reports tasks to OpenLineage: the queue as a dataset, and how many messages were published, claimed and settled.

Publisher and consumer name the same dataset, that of the queue's asset, so that lineage leads from one to the other.

Law: nothing is looked up or read here. OpenLineage asks at the end of a task, in a fork of its process: connections
were read before, and the counts are those that the task has reported to Airflow's metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.providers.common.compat.sdk import Asset

from rmq_airflow import metrics
from rmq_airflow.assets.queue import convert_asset_to_openlineage, queue_asset
from rmq_airflow.hooks.queue import RedisQueueHook

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage


class QueueLineageMixin:
    """The methods of an operator that Airflow's OpenLineage provider calls. They return None without that provider."""

    queue_is: ClassVar[Literal["input", "output"]] = "input"

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage | None:  # noqa: ARG002  the provider's signature
        """Return the queue, the counts, and what the operator's own inlets, outlets and hooks add."""
        try:
            from airflow.providers.openlineage.extractors import OperatorLineage  # may be absent
        except ImportError:
            return None
        counts = metrics.reported_counts(self)
        found = OperatorLineage()
        for queue in counts or filter(None, [_queue_of(self)]):
            dataset = _dataset(self, queue)
            if dataset is not None:
                _add(found, self.queue_is, dataset, counts.get(queue, {}))
        _add_others(found.inputs, self, "inputs")
        _add_others(found.outputs, self, "outputs")
        if any(counts.values()):
            found.run_facets["rmq"] = _run_facet(counts)
        return found

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> OperatorLineage | None:
        """Return the same: what was published or settled before the failure stays so."""
        return self.get_openlineage_facets_on_complete(task_instance)


def _queue_of(operator: Any) -> str | None:
    handed = getattr(operator, "hand_over", None)
    if isinstance(handed, Mapping):
        return handed.get("queue")
    return getattr(operator, "redis_queue", None)


def _dataset(operator: Any, queue: str) -> Any:
    settings = RedisQueueHook.seen.get(operator.redis_queue_conn_id)
    return None if settings is None else convert_asset_to_openlineage(queue_asset(settings, queue), None)


def _add(found: OperatorLineage, side: str, dataset: Any, counts: Mapping[str, int]) -> None:
    from openlineage.client.generated import base, data_quality_metrics_input_dataset  # may be absent
    from openlineage.client.generated import output_statistics_output_dataset as statistics

    names = {"namespace": dataset.namespace, "name": dataset.name}
    if side == "output":
        rows = counts.get("published", 0) + counts.get("redriven", 0)
        written = {"outputStatistics": statistics.OutputStatisticsOutputDatasetFacet(rowCount=rows)}
        found.outputs.append(base.OutputDataset(**names, outputFacets=written))
    elif "claimed" in counts:
        quality = data_quality_metrics_input_dataset.DataQualityMetricsInputDatasetFacet
        read = {"dataQualityMetrics": quality(columnMetrics={}, rowCount=counts["claimed"])}
        found.inputs.append(base.InputDataset(**names, inputFacets=read))
    else:
        found.inputs.append(base.InputDataset(**names))


def _run_facet(counts: Mapping[str, Mapping[str, int]]) -> Any:
    """Return the facet `rmq` of a run: for each queue, how many messages were published, claimed, acked and so on."""
    import attr  # the classes of the client, which may be absent, are made with it
    from openlineage.client.generated.base import RunFacet

    made = attr.make_class("RmqRunFacet", {"queues": attr.field()}, bases=(RunFacet,))
    return made(queues={queue: dict(each) for queue, each in counts.items()})


def _add_others(known: list[Any], operator: Any, side: Literal["inputs", "outputs"]) -> None:
    """Add what OpenLineage would find for an operator without these methods, but for SQL statements."""
    from airflow.providers.common.compat.lineage.hook import get_hook_lineage_collector
    from airflow.providers.common.compat.openlineage.utils.utils import translate_airflow_asset

    declared = operator.inlets if side == "inputs" else operator.outlets
    collected = [each.asset for each in getattr(get_hook_lineage_collector().collected_assets, side)]
    for asset in (*declared, *collected):
        dataset = translate_airflow_asset(asset, None) if isinstance(asset, Asset) else None
        if dataset is not None and all(
            (each.namespace, each.name) != (dataset.namespace, dataset.name) for each in known
        ):
            known.append(dataset)
