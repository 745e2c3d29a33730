"""Source and target of rows: options, the Redis and the queue that they name, and the queue's shards."""
