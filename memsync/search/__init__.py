"""A question in, checked hits out."""
