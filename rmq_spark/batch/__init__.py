"""A batch as a DataFrame: its leases, the threads that watch over them, and how it ends."""
