"""The index in SQLite: FTS5 for words, vec0 for vectors, through APSW."""
