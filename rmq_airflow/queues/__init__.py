"""The queue provider that Airflow's provider `common.messaging` loads."""
