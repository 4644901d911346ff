"""Vectors that all of a user's memory roots share, and the files that carry them to another machine."""
