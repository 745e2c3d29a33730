"""What Spark runs on: Java, a session, and processes that lack this package."""
