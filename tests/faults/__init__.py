"""Whole runs under faults: full disks, kills, lost power, damaged files, hostile content."""
