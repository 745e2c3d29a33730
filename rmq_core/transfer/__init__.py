"""Moves the messages of a queue to another server or discipline: exports and imports them as lines of JSON."""
