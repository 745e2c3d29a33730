"""The example, as Airflow loads it: its operator polls a run that a retry finds again."""

from __future__ import annotations

from example_dags.submitters.databricks import dag

__all__ = ["dag"]
