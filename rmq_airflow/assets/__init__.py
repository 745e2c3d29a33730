"""Airflow assets that represent queues."""
