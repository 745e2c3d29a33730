"""Flight delays in Dagster, airport by airport: a publisher, a sensor, partitions, a Spark job, checks and plots."""
