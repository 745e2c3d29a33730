"""Measures RMQ in ratios: against a bare redis-py loop and against peers, interleaved."""
