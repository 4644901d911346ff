"""Every test here that opens a memory runs on each index backend."""

from tests.support.backends import backend as backend
