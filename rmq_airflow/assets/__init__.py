"""Assets that stand for queues."""
