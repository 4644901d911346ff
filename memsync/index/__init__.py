"""Index backends, one folder each."""
