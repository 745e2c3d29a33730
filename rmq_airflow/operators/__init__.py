"""Operators that publish work and that run a Spark job on a claimed batch."""
