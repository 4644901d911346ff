"""Writing Markdown."""
