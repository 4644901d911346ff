"""Plants faults in a copy of memsync, one at a time, and runs the tests that could find each: `make mutants`."""
