"""Tests: a folder for each room of memsync, one file a capability; `faults` and `convergence` test the whole.

Run: make test, which draws a sample; make test-all runs every case.
"""
