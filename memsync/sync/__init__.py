"""Keeps the index equal to the files."""
