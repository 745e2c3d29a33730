"""Sensors, which poll a queue and hold no message."""
