"""A package for each discipline: how it stores messages, hands them out and requeues them."""
