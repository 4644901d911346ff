"""`python -m memsync`."""

from memsync.cli.entry import run

if __name__ == "__main__":
    run()
