"""The kernel of every discipline: façades, heartbeats, `process`, publishing, settling, keys, the registry."""
