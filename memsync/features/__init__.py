"""What a memory can do: one module or folder a feature, each a few operations. None imports another."""
