"""The example, as Airflow loads it: its operator submits a job in each try."""

from __future__ import annotations

from example_dags.submitters.emr_on_eks import dag

__all__ = ["dag"]
