"""The files of a repository are read without running git, and only up to a limit."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from memsync.notes.git_files import MAX_LINE_BYTES, GitUnusable, head_state, read_file
from tests.conftest import Patch


def test_file_that_grows_while_it_is_opened_is_read_up_to_the_limit(tmp_path: Path, monkeypatch: Patch) -> None:
    """The size that `stat` tells does not bound what is read: it is also 0 for the endless files of some systems."""
    path, stat = tmp_path / "HEAD", os.fstat
    path.write_bytes(b"")

    def stat_and_grow(descriptor: int) -> os.stat_result:
        status = stat(descriptor)
        os.truncate(path, 100_000_000)
        return status

    monkeypatch.setattr(os, "fstat", stat_and_grow)
    tracemalloc.start()
    try:
        with pytest.raises(GitUnusable, match="is too large"):
            read_file(str(path), MAX_LINE_BYTES)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["shallow", "packed-refs"])
def test_folder_in_the_place_of_a_file_is_named(name: str, tmp_path: Path) -> None:
    """The reason says which one it is."""
    git_dir = tmp_path / ".git"
    (git_dir / name).mkdir(parents=True)
    (git_dir / "HEAD").write_text("ref: refs/heads/main\n")
    assert head_state(tmp_path).reason == f"{git_dir / name}: Is a directory"
