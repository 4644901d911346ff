"""Adapters of frameworks: exactness, contracts written from their docs, and stand-ins for the frameworks' own suites."""
