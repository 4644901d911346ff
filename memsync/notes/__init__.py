"""Read the notes: find files, parse Markdown and front matter, cut into chunks."""
