"""Files as they are -> the index."""
