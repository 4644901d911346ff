"""Finds the project of a folder: git's origin, so that two clones are one project; otherwise the folder."""

from __future__ import annotations

import os
import re

from memsync.notes.git_files import GitUnusable, find_repository, read_file

MAX_CONFIG_BYTES = 1_000_000
_ORIGIN = '[remote "origin"]'
_URL = re.compile(r"^\s*url\s*=\s*(\S+)\s*$")
_PLACE = re.compile(r"^(?:[\w+.-]+://)?(?:[^@/]+@)?([^/:]+)(?::\d+)?[:/]/*(.+?)(?:\.git)?/*$")


def project_of(folder: str) -> str:
    """Return the project of a folder: `host/path` of git's origin, otherwise the top of its working tree.

    Outside git, the project is the folder itself. No program runs, because the folder may come from a stranger. From
    its git configuration, memsync uses only the URL of origin.
    """
    try:
        repository = find_repository(folder)
        if repository is None:
            return os.path.abspath(folder)
        config = read_file(os.path.join(repository.common_dir, "config"), MAX_CONFIG_BYTES)
        return _origin(config.decode("utf-8", "replace")) or repository.work_tree
    except (GitUnusable, OSError):
        return os.path.abspath(folder)


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
