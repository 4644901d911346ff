"""Markdown in: files, front matter, structure, chunks."""
