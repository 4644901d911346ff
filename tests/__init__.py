"""Tests: a folder for each room of memsync, one file a capability; `faults` and `convergence` test the whole.

Run: make test.
"""
