"""A queue, its dead letters and checks in Dagster's lineage."""
