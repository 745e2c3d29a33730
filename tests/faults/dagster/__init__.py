"""Faults that hit a real `dagster dev`: webserver, daemon and code server, on PostgreSQL."""
