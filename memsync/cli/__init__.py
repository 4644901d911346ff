"""The command line: parse, call MemoryApi, render. Nothing else."""

from memsync.system.programs import forget_relative_folders

forget_relative_folders()  # here, because it must come before any other import
