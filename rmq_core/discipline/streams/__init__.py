"""The discipline `streams`: a consumer group of a Redis stream, with explicit acknowledgement and no hidden retries."""
