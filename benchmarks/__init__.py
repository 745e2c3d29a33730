"""Measures RMQ in ratios: each against a bare redis-py loop, interleaved with it in one run. See RESULTS.md."""
