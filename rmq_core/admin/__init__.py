"""What operators do with a queue of any discipline."""
