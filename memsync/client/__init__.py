"""The daemon's client: what a message looks like, and a connection that sends requests."""
