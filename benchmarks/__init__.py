"""Measure RMQ in ratios to a bare redis-py loop and to other libraries, with interleaved slices."""
