"""The leased engine: a queue whose unit of holding is the lease, not the message."""
