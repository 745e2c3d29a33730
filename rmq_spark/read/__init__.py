"""Reading on executors: the slices of a lease, the messages of a browsed queue, and JSON payloads."""
