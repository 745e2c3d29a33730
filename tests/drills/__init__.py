"""What an engineer on call does, with a stopwatch: seven situations, each found, explained and repaired."""
