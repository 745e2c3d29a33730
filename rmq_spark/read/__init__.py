"""Reading on executors: the slices of a lease, what a queue holds, and JSON payloads."""
