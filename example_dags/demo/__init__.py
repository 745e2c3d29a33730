"""`make demo`: the main job on real flights, through Airflow and through Dagster, on an embedded Redis."""
