"""Reading Markdown."""
