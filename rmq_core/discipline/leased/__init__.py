"""The leased engine: a consumer holds messages under a lease, not each message by itself."""
