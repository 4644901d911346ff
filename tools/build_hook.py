"""Write the commit from which a wheel or an sdist is built into it, for `memsync --version`."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "memsync/commit.txt"


class CommitHook(BuildHookInterface[Any]):
    """Adds PLACE to what is built. An sdist brings it, so that a wheel of it names the same commit."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the commit of the checkout; nothing without git, and for an editable installation, which reads .git."""
        if version == "editable" or Path(self.root, PLACE).exists():
            return
        git = shutil.which("git")
        described = (
            [git, "-C", self.root, "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"] if git else []
        )
        done = subprocess.run(described, capture_output=True, text=True, check=False) if described else None
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name, "commit.txt")
        file.write_text(done.stdout if done and done.returncode == 0 and Path(self.root, ".git").exists() else "")
        build_data["force_include"][str(file)] = PLACE
