"""A root that is a git repository, and a memory that commits each write to it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from memsync.memory import Memory
from memsync.settings.load import load_settings
from tests.conftest import MakeMemory


@pytest.fixture
def git(root: Path) -> Callable[..., str]:
    """Make the root a git repository with an empty commit, name an author, and return what runs git in it."""

    def run(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True).stdout

    Path(os.environ["HOME"]).mkdir()
    run("config", "--global", "user.name", "A")
    run("config", "--global", "user.email", "a@example.org")
    run("init", "-q", "-b", "main")
    run("commit", "-q", "--allow-empty", "-m", "first")
    return run


@pytest.fixture
def committing(make_memory: MakeMemory, root: Path, git: Callable[..., str]) -> Memory:
    return make_memory(own_settings=load_settings(root=root, environ={"MEMSYNC_GIT_COMMIT": "true"}, cwd=root))
