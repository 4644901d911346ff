"""The daemon: one process for each memory root. It watches the notes, indexes them and answers requests."""
