"""The vector cache, which all memory roots of a user share, and its export and import files."""
