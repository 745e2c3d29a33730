"""Measures RMQ in ratios: against a bare redis-py loop (RESULTS.md) and against peers (PEERS.md), interleaved."""
