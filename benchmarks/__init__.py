"""Measurements of memsync on real data: `python -m benchmarks --data FOLDER`."""
