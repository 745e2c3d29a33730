"""The same situations through Airflow and through Dagster, each in a separate deployment."""
