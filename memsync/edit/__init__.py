"""Markdown out: the only room that may change a file of the memory root."""
