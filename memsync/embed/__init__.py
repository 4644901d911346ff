"""Models that embed and rerank texts: one module for each provider."""
