"""Who published a message, from the headers that the integrations add to it."""

from __future__ import annotations

from collections.abc import Mapping

SPARK = ("spark-application-id",)
DAGSTER = ("dagster-job", "dagster-run-id", "dagster-step-key")
AIRFLOW = ("airflow-dag-id", "airflow-run-id", "airflow-task-id", "airflow-map-index", "airflow-loop-index")
PUBLISHERS: Mapping[str, tuple[str, ...]] = {"spark": SPARK, "dagster": DAGSTER, "airflow": AIRFLOW}
"""The headers by integration. A Spark job or a step may copy the headers of a message that an orchestrator published,
so the orchestrators come last."""


def publisher_of(headers: Mapping[str, str]) -> str:
    """Return who published a message, such as `dagster <job>/<run>/<step>`; '' if its headers do not say."""
    for integration, names in PUBLISHERS.items():
        if named := [headers[name] for name in names if name in headers]:
            return f"{integration} {'/'.join(named)}"
    return ""
