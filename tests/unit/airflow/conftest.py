"""Parts of rmq_airflow need Airflow's configuration, and that needs a home."""

from __future__ import annotations

from tests.airflow.home import prepare

prepare()
