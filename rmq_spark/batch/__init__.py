"""A batch as a DataFrame: its leases, the threads that watch them, and its settling."""
