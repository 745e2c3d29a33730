"""Runs and leases: which run holds which lease, and what happens to the lease when the run ends."""
