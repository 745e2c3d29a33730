"""The page "Queues" in a real browser, inside a real Airflow."""
