"""The runtime of Spark: Java, a session, and shipping this package to processes that lack it."""
