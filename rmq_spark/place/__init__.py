"""What rows come from and go to: options, the Redis and the queue that they name, its shards."""
