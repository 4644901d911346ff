"""Searching."""
