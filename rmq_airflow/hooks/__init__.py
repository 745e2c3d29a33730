"""Connections of type `redis_queue`, and the Spark submit hook that runs a driver under a lease."""
