"""The same situations through Airflow and through Dagster, each on a deployment of its own."""
