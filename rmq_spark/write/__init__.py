"""Writing: messages published, and failed rows settled."""
