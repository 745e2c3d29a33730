"""Triggers: the waiting half of a deferrable sensor; they never claim."""
