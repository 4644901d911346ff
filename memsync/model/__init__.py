"""The vocabulary: every value that crosses from one room to another.

Lines count from 1 and spans include both ends. Times are ISO 8601 text as the file gives them, without a zone
unless the file names one. A `score` is higher-is-better; a `distance`, lower-is-better, never leaves its backend.
"""
