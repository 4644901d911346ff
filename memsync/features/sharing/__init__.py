"""The same memory on several machines: what changed is committed, merged and exchanged through a git repository."""
