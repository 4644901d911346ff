"""How memsync is installed here, and its optional parts: which packages each needs, and for what."""

from __future__ import annotations

import json
import os
import shlex
import sys
from importlib.util import find_spec
from typing import NamedTuple

from memsync.errors import ConfigError

EXTRAS = {
    "web": (("jinja2", "starlette", "uvicorn"), "memsync web, memsync http, mcp --http and thread export --html"),
    "postgres": (("psycopg",), "an index in PostgreSQL"),
    "openai": (("openai",), "the models openai:…"),
    "multilingual": (("onnx",), "making the model multilingual"),
}
"""Extra of pyproject.toml -> its packages, and the features that need them."""


class Installer(NamedTuple):
    """The commands that change this installation: `add` ends before the requirement to install."""

    add: str
    remove: str


def installer() -> Installer:
    """Return the commands of the tool that made this environment: uv, pipx or pip."""
    if os.path.exists(os.path.join(sys.prefix, "uv-receipt.toml")):
        return Installer("uv tool install", "uv tool uninstall memsync")
    if os.path.exists(os.path.join(sys.prefix, "pipx_metadata.json")):
        return Installer("pipx install --force", "pipx uninstall memsync")
    python = shlex.quote(sys.executable)
    if find_spec("pip") is None:  # uv makes environments without it
        return Installer(f"uv pip install --python {python}", f"uv pip uninstall --python {python} memsync")
    return Installer(f"{python} -m pip install", f"{python} -m pip uninstall memsync")


def how_to_install(extra: str) -> str:
    """Return the hint to install an optional part of memsync, from where memsync itself was installed.

    It names the parts that are there, too, because uv and pipx make the environment anew.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # which only a hint needs
    from urllib.parse import unquote

    try:
        source = json.loads(distribution("memsync").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        source = {}
    url = source.get("url", "")
    if vcs := source.get("vcs_info"):  # git+https://…@tag, as pip was asked
        url = f"{vcs['vcs']}+{url}" + (f"@{revision}" if (revision := vcs.get("requested_revision")) else "")
    parts = f"[{','.join([*(name for name in EXTRAS if name != extra and not lacking(name)), extra])}]"
    requirement = f"memsync{parts}" + (f" @ {url}" if url else "")
    if "dir_info" in source:  # a clone: pip takes an editable one by its path only
        requirement = f"{unquote(url.removeprefix('file://'))}{parts}"
    is_editable = source.get("dir_info", {}).get("editable", False)
    return f"Run: {installer().add} {'-e ' * is_editable}{shlex.quote(requirement)}"


def lacking(extra: str) -> str:
    """Return the first package of an extra that is not installed; empty text if all are."""
    return next((name for name in EXTRAS[extra][0] if find_spec(name) is None), "")


def require(extra: str, feature: str) -> None:
    """Raise ConfigError, which says what to install, unless all packages of an extra are there."""
    if package := lacking(extra):
        raise ConfigError(f"{feature} needs {package}, which is not installed", hint=how_to_install(extra))
