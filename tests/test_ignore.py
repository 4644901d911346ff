"""Which files are notes: names, `.gitignore` at every depth, and the `[files] exclude` setting."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from memsync.notes.files import NoteFiles

Write = Callable[[str, str | bytes], Path]


def notes(root: Path, *exclude: str) -> list[str]:
    return sorted(NoteFiles(root, exclude).scan().files)


@pytest.mark.parametrize(
    "name",
    ["a.md", "b.markdown", "C.MD", "d.Markdown", "#ideas.md", "~tilde.md", "two words.md", "x.tmp.md", "-.md", "e..md"],
)
def test_markdown_file_is_a_note(name: str, root: Path, write: Write) -> None:
    """Both suffixes, in any case."""
    write(name, "text")
    assert notes(root) == [name]


LEFTOVERS = """
.a.md .#a.md #a.md# a.md~ a.md.swp .a.md.swp a.md.tmp a.md___jb_tmp___ a.md___jb_old___ a.txt md a.md.bak amd .md
.git/a.md .obsidian/a.md folder/.hidden/a.md 4913
"""


@pytest.mark.parametrize("name", LEFTOVERS.split())
def test_hidden_file_or_leftover_is_no_note(name: str, root: Path, write: Write) -> None:
    """Hidden files and folders, and what editors and sync clients leave behind."""
    write(name, "text")
    assert notes(root) == []


TREE = ["a.md", "b.md", "docs/a.md", "docs/b.md", "docs/sub/a.md", "build/a.md", "docs/build/a.md"]


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        (["a.md"], ["b.md", "docs/b.md"]),
        (["/a.md"], ["b.md", "build/a.md", "docs/a.md", "docs/b.md", "docs/build/a.md", "docs/sub/a.md"]),
        (["build"], ["a.md", "b.md", "docs/a.md", "docs/b.md", "docs/sub/a.md"]),
        (["build/"], ["a.md", "b.md", "docs/a.md", "docs/b.md", "docs/sub/a.md"]),
        (["/build/"], ["a.md", "b.md", "docs/a.md", "docs/b.md", "docs/build/a.md", "docs/sub/a.md"]),
        (["docs/*.md"], ["a.md", "b.md", "build/a.md", "docs/build/a.md", "docs/sub/a.md"]),
        (["docs/**/a.md"], ["a.md", "b.md", "build/a.md", "docs/b.md"]),
        (["docs/**"], ["a.md", "b.md", "build/a.md"]),
        (["**/sub"], ["a.md", "b.md", "build/a.md", "docs/a.md", "docs/b.md", "docs/build/a.md"]),
        (["/*", "!/docs/"], ["docs/a.md", "docs/b.md", "docs/build/a.md", "docs/sub/a.md"]),
        (["*", "!*/", "!b.md"], ["b.md", "docs/b.md"]),
        (["*.md", "!docs/a.md"], ["docs/a.md"]),
        (["docs", "!docs/a.md"], ["a.md", "b.md", "build/a.md"]),
        (["!a.md", "a.md"], ["b.md", "docs/b.md"]),
        (["[!b].md"], ["b.md", "docs/b.md"]),
        (["?.md", "!/a.md"], ["a.md"]),
        (["a.md/", "*.log", "# b.md", "", "  "], TREE),
        (["!", "a\\", "[z-a].md", "[a", "/", "//"], TREE),
        (["a.md  ", "b.md\r"], []),
        (["\ufeffa.md", "b.md"], []),
    ],
)
def test_gitignore_lines_mean_what_they_mean_to_git(
    lines: list[str], left: list[str], root: Path, write: Write
) -> None:
    """Anchors, stars, folder patterns, negation, comments; a line that is no pattern matches nothing."""
    for name in TREE:
        write(name, "text")
    write(".gitignore", "\n".join(lines) + "\n")
    assert notes(root) == sorted(left)


def test_deeper_gitignore_overrides_a_shallower_one(root: Path, write: Write) -> None:
    """Its patterns are relative to its own folder."""
    for name in TREE:
        write(name, "text")
    write(".gitignore", "*.md\n")
    write("docs/.gitignore", "!/a.md\n")
    write("docs/sub/.gitignore", "!*.md\n")
    assert notes(root) == ["docs/a.md", "docs/sub/a.md"]


def test_gitignore_beneath_an_ignored_folder_does_not_count(root: Path, write: Write) -> None:
    """The walk does not enter it."""
    write("build/a.md", "text")
    write("build/.gitignore", "!*\n")
    write(".gitignore", "build/\n")
    assert notes(root) == []


def test_gitignore_above_the_root_does_not_count(root: Path, write: Write) -> None:
    """A project may keep its memory folder out of its own repository."""
    (root.parent / ".gitignore").write_text("*.md\n")
    write("a.md", "text")
    assert notes(root) == ["a.md"]


def test_exclude_setting_is_read_like_a_gitignore_at_the_root(root: Path, write: Write) -> None:
    """A `.gitignore` is deeper than the setting, so it may take a file back in."""
    for name in TREE:
        write(name, "text")
    assert notes(root, "docs/", "/b.md") == ["a.md", "build/a.md"]
    assert notes(root, "*.md", "!b.md") == ["b.md", "docs/b.md"]
    write(".gitignore", "!/a.md\n")
    assert notes(root, "*.md") == ["a.md"]


def test_changed_gitignore_counts_at_the_next_scan(root: Path, write: Write) -> None:
    """However soon it is changed, and though its size and time stay the same."""
    write("a.md", "text")
    write("b.md", "text")
    path = write(".gitignore", "a.md\n")
    files = NoteFiles(root)
    assert sorted(files.scan().files) == ["b.md"]
    before = path.stat()
    path.write_text("b.md\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert sorted(files.scan().files) == ["a.md"]
    path.unlink()
    assert sorted(files.scan().files) == ["a.md", "b.md"]


@pytest.mark.parametrize("kind", ["link", "folder", "huge", "binary"])
def test_gitignore_that_cannot_be_read_ignores_nothing(kind: str, root: Path, write: Write, tmp_path: Path) -> None:
    """A link may lead outside, a folder holds no lines, and no one writes a megabyte of patterns."""
    write("a.md", "text")
    (tmp_path / "outside").write_text("*.md\n")
    path = root / ".gitignore"
    if kind == "link":
        path.symlink_to(tmp_path / "outside")
    elif kind == "folder":
        path.mkdir()
    elif kind == "huge":
        path.write_text("*.md\n" * 300_000)
    else:
        path.write_bytes(b"\xff\xfe\0*.md\0" * 100)
    assert notes(root) == ["a.md"]


def test_many_stars_do_not_make_matching_exponential(root: Path, write: Write) -> None:
    """A pattern from a stranger's repository must not stop the scan."""
    write("a" * 250 + ".md", "text")
    write(".gitignore", "*a" * 60 + "b.md\n" + "a*" * 60 + "b\n")
    assert len(notes(root)) == 1


ATOMS = """
* *.md /* a.md /a.md docs docs/ /docs/ docs/* docs/** **/build build/ ** */ **/ sub/ docs/sub/ docs/*.md **/*.md
/docs/*/ [ab].md ?.md *.log build* docs/**/a.md [!a]*.md []a].md [[:alpha:]].md [z-a].md a\\.md *a*d*.md ! \\!a.md
"""


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git to compare with; install git")
@pytest.mark.parametrize("seed", range(20))
def test_random_rules_leave_the_files_that_git_leaves(seed: int, root: Path, write: Write) -> None:
    """Git itself is the judge of what its patterns mean."""
    choose = random.Random(seed)
    for name in [*TREE, "docs/sub/b.md", "build/b.md", "!a.md"]:
        write(name, "text")
    for folder in ("", "docs/", "docs/sub/"):
        lines = [choose.choice(["", "", "!"]) + choose.choice(ATOMS.split()) for _ in range(choose.randint(1, 4))]
        write(f"{folder}.gitignore", "\n".join(lines))
    command = ["git", "ls-files", "--others", "--exclude-standard", "-z"]
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    assert notes(root) == sorted(name for name in listed if name.endswith(".md"))
