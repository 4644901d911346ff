"""Plugins of pytest that put memsync's classes in the place of a framework's own: `make integrations`."""
