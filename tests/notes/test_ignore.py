"""Which files are notes: names, `.gitignore` at every depth, and the `[files] exclude` setting."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from memsync.errors import RootError
from memsync.model.vocabulary import NotePath
from memsync.notes.files import NoteFiles
from memsync.notes.ignore import IgnoreFile
from memsync.notes.ignore_pattern import IgnorePattern, read_pattern
from memsync.notes.rules import PathRules
from tests.conftest import Write
from tests.support.sampling import sampled


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


@pytest.mark.parametrize(
    "content", ["*.md\n" * 13_000, "a*b*c\n" * 3_300, "*" * 16_001], ids=["bytes", "patterns", "pattern"]
)
def test_folder_whose_gitignore_costs_too_much_is_not_read(content: str, root: Path, write: Write) -> None:
    """Nobody knows what it leaves out: its notes count as unknown, and none is new; the answer names the folder."""
    write("a.md", "text")
    write("sub/b.md", "text")
    write("sub/.gitignore", content)
    files = NoteFiles(root)
    scan = files.scan()
    assert (sorted(scan.files), scan.is_unknown(NotePath("sub/b.md"))) == (["a.md"], True)
    assert [failure.path for failure in scan.failures] == ["sub/"] and ".gitignore" in scan.failures[0].reason
    assert files.leaves_out(NotePath("sub/c.md")) and not files.leaves_out(NotePath("c.md"))
    write(".gitignore", content)
    with pytest.raises(RootError, match=r"its \.gitignore .* shorten it"):
        files.scan()


def test_patterns_of_nested_folders_count_together(root: Path, write: Write) -> None:
    """A clone may have many folders, and each path is compared with the patterns of all folders above it."""
    for depth in range(5):
        write("a/" * depth + ".gitignore", "a*b*c\n" * 1_100)
        write("a/" * depth + "x.md", "text")
    scan = NoteFiles(root, ["q*q*q"]).scan()
    assert (sorted(scan.files), scan.unreadable_folders) == (["a/x.md", "x.md"], ["a/a/"])


@pytest.mark.parametrize("kind", ["link", "folder", "binary"])
def test_gitignore_that_cannot_be_read_ignores_nothing(kind: str, root: Path, write: Write, tmp_path: Path) -> None:
    """A link may lead outside, and a folder holds no lines."""
    write("a.md", "text")
    (tmp_path / "outside").write_text("*.md\n")
    path = root / ".gitignore"
    if kind == "link":
        path.symlink_to(tmp_path / "outside")
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"\xff\xfe\0*.md\0" * 100)
    assert notes(root) == ["a.md"]


STRANGE = [
    b"a/**/" * 14 + b"b.md", b"**/a/" * 400 + b"b.md", b"a/**\\/" * 400, b"*a" * 60 + b"b.md", b"a*" * 60 + b"b",
    b"[a]*" * 120 + b"b", b"?*" * 200 + b"/**/" + b"*?" * 200, b"[[:" * 2_000 + b"]", b"[" + b"[:" * 2_000 + b"]" * 2,
    b"[[" * 2_000, b"\\" * 4_000, b"a" + b" " * 4_000 + b"b ", b"*" * 4_000 + b"x", b"!" * 4_000, b"[a-z]" * 800,
]  # fmt: skip


@pytest.mark.parametrize("line", STRANGE, ids=range(len(STRANGE)))
def test_hostile_pattern_is_matched_at_once(line: bytes) -> None:
    """However deep a path is: with backtracking each of these takes longer than anybody waits."""
    pattern = read_pattern(line)
    for path in (b"a/" * 2_000 + b"x.md", b"a" * 250 + b".md", b"a/b/" * 1_000 + b"b.mdx", b"a/a" * 1_300):
        assert not pattern or pattern.matches(path) in (True, pattern.holds(path))


def test_thousands_of_lines_are_looked_up_not_tried_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and paths cost one look each, however many lines there are; the last line that matches wins."""
    lines = [f"{kind}{number}.md".encode() for number in range(5_000) for kind in ("", "/sub/")]
    rules = IgnoreFile.from_lines("", [*lines, b"!77.md", b"!/sub/78.md"])
    monkeypatch.setattr(IgnorePattern, "matches", None)
    paths = ("x.md", "4.md", "sub/99.md", "77.md", "sub/78.md", "q/5.md", "q/sub/9999.md")
    assert [rules.for_files.verdict(path) for path in paths] == [None, True, True, False, False, True, None]


ATOMS = """
* *.md /* a.md /a.md docs docs/ /docs/ docs/* docs/** **/build build/ ** */ **/ sub/ docs/sub/ docs/*.md **/*.md
/docs/*/ [ab].md ?.md *.log build* docs/**/a.md [!a]*.md []a].md [[:alpha:]].md [z-a].md a\\.md *a*d*.md ! \\!a.md
"""


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git to compare with; install git")
@pytest.mark.parametrize("seed", sampled(range(20), 6))
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


PIECES = r"""
* ** *** / / a b foo ? [ab] [!a] [^b] [a-c] []a] []-a] [a-] [[:alpha:]] [[:digit:]x] [[:] [[:a] [[:foo:]] [a \* \a \/ \
[\]] [a\-c] **/ /** /**/ .md é ! # [z-a] [!z-a] [/] [a/b] - [--a] [+--] [a-\c] [[a] [:alpha:] [[:space:]] ]
[[:punct:][:upper:]]
"""
NAMES = "a b foo ab foob a.md b.md foo.md é é.md c * - ] A #a [a"


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git to compare with; install git")
@pytest.mark.parametrize("seed", sampled(range(6), 2))
def test_random_pattern_matches_what_git_says_it_matches(seed: int, tmp_path: Path) -> None:
    """Stars, brackets, classes, escapes and spaces in any order, for files in and beneath what is matched."""
    choose = random.Random(seed)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    command = ["git", "check-ignore", "--no-index", "--stdin", "-z"]
    matched = 0
    for _ in range(100):
        line = "".join(choose.choice([*PIECES.split(), " ", "\\ ", "\r"]) for _ in range(choose.randint(1, 6)))
        paths = {
            "/".join(choose.choices([*NAMES.split(), "a b", "foo "], k=choose.choice((1, 1, 2, 2, 3, 4))))
            for _ in range(60)
        }
        (tmp_path / ".gitignore").write_bytes(f"{line}\n".encode())
        listed = subprocess.run(command, cwd=tmp_path, input="\0".join(paths), capture_output=True, text=True)
        assert listed.returncode in (0, 1), listed.stderr
        pattern = read_pattern(line.encode())
        mine = {path for path in paths if pattern and pattern.ignores and pattern.holds(path.encode())}
        assert mine == set(filter(None, listed.stdout.split("\0"))), line
        matched += len(mine)
    assert matched > 100


@pytest.mark.parametrize(
    ("glob", "path", "kind"),
    [
        ("daily/", "daily/2026/a.md", "daily"), ("daily", "x/daily/a.md", "daily"), ("/daily", "x/daily/a.md", "note"),
        ("**/log-*.md", "a/b/log-1.md", "daily"), ("a/**/b", "a/x/y/b/c.md", "daily"), ("a/**/b/", "a/x/y/b", "note"),
        ("a/**/" * 14 + "b", "a/" * 200 + "x.md", "note"), ("[z", "z", "note"),
    ],
)  # fmt: skip
def test_kind_is_told_by_a_glob_of_the_note_or_of_a_folder_above_it(glob: str, path: str, kind: str) -> None:
    """As in .gitignore, a folder's glob is about all that is in it."""
    assert PathRules({glob: "daily"}, {}).kind(NotePath(path)) == kind
