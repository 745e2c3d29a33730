"""rmq_dagster without Redis, processes or clocks."""
