"""A simulated world, deterministic and hostile, in which the real memsync must stay equal to the files.

Time, the stamps of files, the watcher's reports, the model's answers and the order of work are simulated; the files,
git and SQLite are real. One step of the machine (machine.py) is one thing a person, git, another process or the clock
does. oracle.py says what must hold.
"""
