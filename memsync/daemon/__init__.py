"""The daemon: one process a memory root that watches, indexes and answers; and how others speak to it."""
