"""The console in a browser, without Airflow around it."""
