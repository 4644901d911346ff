"""HTTP on loopback: the operations as an API, and the pages."""
