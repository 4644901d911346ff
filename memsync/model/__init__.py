"""The values that packages of memsync pass to each other.

Lines count from 1 and spans include both ends. Times are ISO 8601 text as the file gives them, without a time zone
unless the file names one. A higher `score` is better. A lower `distance` is better; it never leaves its backend.
"""
