"""Places that hold the index, one folder a backend."""
