"""The project itself: docs, lock files, imports."""
