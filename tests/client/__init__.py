"""The daemon's client."""
