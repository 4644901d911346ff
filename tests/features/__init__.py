"""What a memory can do."""
