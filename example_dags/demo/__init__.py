"""`make demo`: the main job on real flights, through Airflow and through Dagster, and groups, on an embedded Redis."""
