"""Writing notes: the only package that may change a file of the memory root."""
