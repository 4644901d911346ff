"""Adapters of frameworks: exactness, contracts written from their docs, and the frameworks' own tests."""
