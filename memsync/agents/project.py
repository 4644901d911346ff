"""Finds the project of a folder: the top of git's main working tree, and the name that its clones share.

Conversations belong to the folder in which they were held. Anybody can write an origin into a folder's `.git/config`,
so the origin joins a folder with other clones only if the user registered a memory or connected an agent there.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import NamedTuple

from memsync.agents.connecting import connected_projects
from memsync.notes.git_files import GitUnusable, Repository, find_repository, read_file
from memsync.settings.roots import registered_roots

MAX_CONFIG_BYTES = 1_000_000
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

    @property
    def filter(self) -> tuple[str, str]:
        """The key and value of the front matter that the project's conversations have."""
        return ("project", self.name) if self.name == self.folder or self._is_known() else ("folder", self.folder)

    def _is_known(self) -> bool:
        """Tell whether the user registered a memory in its folder, or connected an agent there."""
        own = [root.path for root in registered_roots().values() if root.path and not root.only]
        return any(project_of(place).folder == self.folder for place in (*own, *connected_projects()))


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
    is_origin = False
    for line in config.splitlines():
        if line.lstrip().startswith("["):
            is_origin = line.strip() == _ORIGIN
        elif is_origin and (url := _URL.match(line)):
            return of_url(url[1])
    return ""


def of_url(url: str) -> str:
    """Return `host/path` of a repository's URL; a URL in another form stays as it is."""
    place = _PLACE.match(url)
    return f"{place[1].lower()}/{place[2]}" if place else url
