"""The code that all disciplines share: queue classes, heartbeats, `process`, publishing, settling, keys, registry."""
