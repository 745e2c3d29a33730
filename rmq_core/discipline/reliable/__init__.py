"""The reliable queue pattern: LMOVE to a list per worker, ack by removing, and a reaper that requeues the rest."""
