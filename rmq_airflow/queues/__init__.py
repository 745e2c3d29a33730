"""What the provider `common.messaging` reads."""
