"""Sensors: they look at a queue and hold nothing."""
