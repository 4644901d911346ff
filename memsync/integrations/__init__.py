"""memsync as the memory of frameworks: a module each, imported only by who uses it (docs/integrations.md)."""
