"""Settings and trust."""
