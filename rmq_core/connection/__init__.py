"""From a URL or settings to a client of redis-py, and what has to be known of one that is given."""
