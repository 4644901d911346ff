"""Tests, one file a capability. Run: make test."""
