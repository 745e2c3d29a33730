"""Tests of drivers that run in processes of their own, each with its own JVM or Connect server."""
