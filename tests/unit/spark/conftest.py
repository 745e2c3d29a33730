"""Which of these tests the installed Spark can run."""

from __future__ import annotations

from pyspark.sql import datasource

collect_ignore = [] if hasattr(datasource, "EqualTo") else ["test_filters.py"]  # Spark has no filters before 4.1
