"""The daemon's client: the format of messages, and a connection that sends requests."""
