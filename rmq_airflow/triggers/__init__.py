"""Triggers: the part of a deferrable sensor that waits in the triggerer; a sensor's trigger never claims."""
