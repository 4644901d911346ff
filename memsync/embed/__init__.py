"""Text -> vectors, one file a provider."""
