"""Embedding models and the vector cache."""
