"""The index in PostgreSQL with pgvector, which several machines share."""
