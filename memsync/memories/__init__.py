"""Memories of the user: how one is opened, which of them a request is for, and one answer of several."""
