"""The operations of a stream queue, as exchanges: what to ask Redis, what its answer means; no IO, no clock."""
