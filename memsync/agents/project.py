"""Finds the project of a folder: the top of git's main working tree, and the name that its clones share.

Conversations belong to the folder in which they were held. Anybody can write an origin into a folder's `.git/config`,
so the origin joins two clones only if the user registered a memory or connected an agent in each of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from memsync.agents.connecting import connected_projects
from memsync.model.vocabulary import JsonValue
from memsync.notes.decode import split_lines
from memsync.notes.frontmatter import read_head
from memsync.notes.git_files import GitUnusable, Repository, find_repository, read_file
from memsync.settings.roots import registered_roots

MAX_CONFIG_BYTES = 1_000_000
_HEAD_CHARS = 20_000
Choice = Callable[[Mapping[str, JsonValue]], bool]
_ORIGIN = '[remote "origin"]'
_URL = re.compile(r"^\s*url\s*=\s*(\S+)\s*$")
_PLACE = re.compile(r"^(?:[\w+.-]+://)?(?:[^@/]+@)?([^/:]+)(?::\d+)?[:/]/*(.+?)(?:\.git)?/*$")


class Project(NamedTuple):
    """A project: `name` is `host/path` of git's origin, or the folder without one.

    `folder` is the top of the main working tree, to which linked working trees and folders inside it belong. Outside
    git, it is the folder itself.
    """

    name: str
    folder: str

    def conversations(self) -> tuple[tuple[str, str], Choice]:
        """Return a key and value by which to search the project's conversations, and a check of their front matter.

        The check is needed, because another project's conversations may have this value, too.
        """
        own = [root.path for root in registered_roots().values() if root.path and not root.only]
        vouched = {project_of(place) for place in (*own, *connected_projects())}
        folders = {one.folder for one in vouched} if self in vouched else set()
        is_joined = self in vouched and any(one.name == self.name for one in vouched - {self})

        def belongs(facts: Mapping[str, JsonValue]) -> bool:
            cwd = str(facts.get("cwd", ""))  # earlier versions wrote no folder
            folder = str(facts.get("folder") or (project_of(cwd).folder if cwd else facts.get("project")))
            return folder == self.folder or (folder in folders and facts.get("project") == self.name)

        by_project = is_joined or self.name == self.folder  # what an earlier version wrote names only the project
        return ("project", self.name) if by_project else ("folder", self.folder), belongs


def facts_of(thread: Path) -> Mapping[str, JsonValue]:
    """Return the front matter of a conversation; empty if it cannot be read."""
    with suppress(OSError), thread.open(encoding="utf-8", errors="replace") as file:
        return read_head(split_lines(file.read(_HEAD_CHARS))).values
    return {}


def project_of(folder: str) -> Project:
    """Return the project of a folder. No program runs, because the folder may come from a stranger.

    From its git configuration, memsync uses only the URL of origin. If the folder is gone, a repository around its
    place counts.
    """
    top = os.path.realpath(folder)
    with suppress(GitUnusable, OSError):
        if repository := find_repository(folder):
            top = _main_tree(repository)
            config = read_file(os.path.join(repository.common_dir, "config"), MAX_CONFIG_BYTES)
            origin = _origin(config.decode("utf-8", "replace"))
            return Project(top if origin.startswith("/") else origin or top, top)  # a path would name another project
    return Project(top, top)


def folders_of(folder: str) -> set[str]:
    """Return a folder, and the tops of its working tree and of the main one: an agent may keep its memory by any."""
    folders = {os.path.abspath(folder), project_of(folder).folder}
    with suppress(GitUnusable):
        if repository := find_repository(folder):
            folders.add(repository.work_tree)
    return folders


def _main_tree(repository: Repository) -> str:
    """Return the main working tree; a bare repository with linked working trees is its own."""
    if repository.common_dir == repository.git_dir:  # nothing proves that a link or a submodule belongs to another
        return repository.work_tree
    return repository.common_dir.removesuffix("/.git")


def _origin(config: str) -> str:
    """Return `host/path` of the URL of origin; a URL in another form stays as it is."""
    is_origin = False
    for line in config.splitlines():
        if line.lstrip().startswith("["):
            is_origin = line.strip() == _ORIGIN
        elif is_origin and (url := _URL.match(line)):
            place = _PLACE.match(url[1])
            return f"{place[1].lower()}/{place[2]}" if place else url[1]
    return ""
