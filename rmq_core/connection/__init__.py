"""Creates redis-py clients from a URL or settings, and checks clients that a caller passes."""
