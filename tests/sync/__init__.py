"""Bringing the index up to date."""
