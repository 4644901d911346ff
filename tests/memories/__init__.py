"""Several memories: opened, covered, merged."""
