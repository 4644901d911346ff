"""Access to the operating system: the user's own folders, and locks on files."""
