"""The discipline `jobs`: named jobs in a stream, with attempts, backoff, delays, results and schedules."""
