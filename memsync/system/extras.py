"""The optional parts of memsync: which packages each needs, and for what."""

from __future__ import annotations

from importlib.util import find_spec

from memsync.errors import ConfigError, how_to_install

EXTRAS = {
    "web": (("jinja2", "starlette", "uvicorn"), "memsync web, memsync http, mcp --http and thread export --html"),
    "postgres": (("psycopg",), "an index in PostgreSQL"),
    "openai": (("openai",), "the models openai:…"),
    "multilingual": (("onnx",), "making the model multilingual"),
}
"""Extra of pyproject.toml -> its packages, and the features that need them."""


def lacking(extra: str) -> str:
    """Return the first package of an extra that is not installed; empty text if all are."""
    return next((name for name in EXTRAS[extra][0] if find_spec(name) is None), "")


def require(extra: str, feature: str) -> None:
    """Raise ConfigError, which says what to install, unless all packages of an extra are there."""
    if package := lacking(extra):
        raise ConfigError(f"{feature} needs {package}, which is not installed", hint=how_to_install(extra))
