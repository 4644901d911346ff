"""Tests of what memsync knows about agents."""
