"""The command line: parse, call MemoryApi, render. Nothing else."""
