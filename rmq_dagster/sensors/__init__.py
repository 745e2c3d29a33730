"""Sensors that users define, and jobs that they launch."""
