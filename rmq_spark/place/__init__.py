"""Source and target of rows: options, and the Redis and the queue that they name."""
