"""plan_sync: files as they are x files as indexed -> what to read again, what to forget, and in which order."""

from __future__ import annotations

import pytest

from memsync.model.status import ChangeType, FileChange, IndexedFile
from memsync.model.vocabulary import NotePath
from memsync.notes.files import FileScan, Identity
from memsync.sync.plan import plan_sync

SECOND = 1_000_000_000
WRITTEN = 1_000 * SECOND
LATER = WRITTEN + 60 * SECOND
FILE: Identity = (10, WRITTEN, WRITTEN, 7)


def indexed(identity: Identity = FILE, stamped_ns: int = LATER, parsed_by: str = "now") -> IndexedFile:
    return IndexedFile(*identity, b"digest", stamped_ns, parsed_by)


def scanned(files: dict[NotePath, Identity]) -> FileScan:
    return FileScan(files=files, changed=list(files))


def plan(
    files: dict[str, Identity], known: dict[str, IndexedFile], unreadable: list[str] | None = None
) -> list[FileChange]:
    scan = scanned({NotePath(path): identity for path, identity in files.items()})
    scan.unreadable_folders += unreadable or []
    return plan_sync(scan, {NotePath(path): stamp for path, stamp in known.items()}, "now")


def changes(result: list[FileChange]) -> list[tuple[str, str]]:
    return [(change.type.value, change.path) for change in result]


def test_a_file_that_stats_as_it_was_indexed_is_unchanged() -> None:
    """Equal size, mtime, ctime and inode, stamped well after: nothing to read."""
    assert plan({"a.md": FILE}, {"a.md": indexed()}) == []


def test_an_unknown_file_is_added_and_a_missing_one_deleted() -> None:
    """What only one side knows is new or gone."""
    assert changes(plan({"new.md": FILE}, {"old.md": indexed()})) == [("added", "new.md"), ("deleted", "old.md")]


def test_each_part_of_the_identity_alone_makes_a_file_modified() -> None:
    """Size, mtime, ctime or inode: any of them that differs is reason enough to read."""
    for identity in [(11, *FILE[1:]), (10, WRITTEN + 1, *FILE[2:]), (10, WRITTEN, WRITTEN + 1, 7), (*FILE[:3], 8)]:
        assert changes(plan({"a.md": identity}, {"a.md": indexed()})) == [("modified", "a.md")], identity


def test_mtime_set_back_is_noticed_by_ctime() -> None:
    """`touch -r` and rsync restore size and mtime of an edited file; its ctime tells."""
    edited = (10, WRITTEN, WRITTEN + 30 * SECOND, 7)
    assert changes(plan({"a.md": edited}, {"a.md": indexed()})) == [("modified", "a.md")]


def test_a_stamp_taken_within_two_seconds_of_the_mtime_proves_nothing() -> None:
    """A second write in the same clock tick would look the same: read again."""
    racy = indexed(stamped_ns=WRITTEN + 2 * SECOND - 1)
    assert changes(plan({"a.md": FILE}, {"a.md": racy})) == [("modified", "a.md")]
    settled = indexed(stamped_ns=WRITTEN + 2 * SECOND)
    assert changes(plan({"a.md": FILE}, {"a.md": settled})) == []


def test_a_stamp_taken_within_two_seconds_of_the_ctime_proves_nothing() -> None:
    """Two writes that both set the mtime back may share one ctime: read again."""
    old: Identity = (10, WRITTEN - 3_600 * SECOND, WRITTEN, 7)
    racy = indexed(old, stamped_ns=WRITTEN + SECOND)
    assert changes(plan({"a.md": old}, {"a.md": racy})) == [("modified", "a.md")]


def test_a_file_dated_in_the_future_is_never_settled() -> None:
    """A stamp older than the mtime it claims cannot rule out a second write."""
    future: Identity = (10, LATER + SECOND, WRITTEN, 7)
    assert changes(plan({"a.md": future}, {"a.md": indexed(future)})) == [("modified", "a.md")]


def test_a_note_that_other_settings_parsed_is_read_again() -> None:
    """Another parser version or other chunk limits give other chunks of the same bytes."""
    assert changes(plan({"a.md": FILE}, {"a.md": indexed(parsed_by="then")})) == [("modified", "a.md")]


def test_notes_of_an_unreadable_folder_are_kept() -> None:
    """Unreadable is not deleted; its neighbour, which is really gone, is."""
    known = {"private/a.md": indexed(), "private/deep/b.md": indexed(), "privateer.md": indexed()}
    assert changes(plan({}, known, unreadable=["private/"])) == [("deleted", "privateer.md")]


def test_changes_come_by_kind_then_path_with_deletions_last() -> None:
    """Text that moved is added under its new name before its old name goes, so its passages stay."""
    files = {"z.md": FILE, "b.md": FILE, "m.md": (11, *FILE[1:]), "c.md": (12, *FILE[1:]), "same.md": FILE}
    known = {path: indexed() for path in ("m.md", "c.md", "y.md", "a.md", "same.md")}
    result = plan(files, known)
    expected = [
        ("modified", "c.md"), ("modified", "m.md"), ("added", "b.md"), ("added", "z.md"),
        ("deleted", "a.md"), ("deleted", "y.md"),
    ]  # fmt: skip
    assert changes(result) == expected
    assert result[0] == FileChange(ChangeType.MODIFIED, NotePath("c.md"))


TENTH = SECOND // 10
FINE: Identity = (10, WRITTEN + 1, WRITTEN + 1, 7)
WHOLE: Identity = (10, WRITTEN + 7_000_000, WRITTEN + 7_000_000, 7)


@pytest.mark.parametrize(
    ("file", "is_local", "age_ns", "is_read_again"),
    [
        (FINE, True, 0, True), (FINE, True, TENTH - 1, True), (FINE, True, TENTH, False), (FINE, True, -TENTH, False),
        (FINE, True, 1 - TENTH, True), (FINE, False, TENTH, True), (FINE, False, 2 * SECOND - 1, True),
        (FINE, False, 2 * SECOND, False), (WHOLE, True, TENTH, True), (WHOLE, True, 2 * SECOND - 1, True),
        (WHOLE, True, 2 * SECOND, False),
    ],
)  # fmt: skip
def test_a_stamp_of_whole_milliseconds_is_coarser_than_it_looks(
    file: Identity, is_local: bool, age_ns: int, is_read_again: bool
) -> None:
    """On a local disk a tenth of a second rules out a second write; where stamps are coarse, or not ours, two do."""
    scan = scanned({NotePath("a.md"): file})
    known = {NotePath("a.md"): indexed(file, stamped_ns=file[2] + age_ns)}
    assert bool(plan_sync(scan, known, "now", is_local=is_local)) is is_read_again


def test_ctime_alone_may_be_coarse() -> None:
    """An mtime may have been set to any nanosecond; the ctime tells how fine the file system's stamps are."""
    odd: Identity = (10, WRITTEN - 5 * SECOND + 1, WRITTEN, 7)
    scan = scanned({NotePath("a.md"): odd})
    known = {NotePath("a.md"): indexed(odd, stamped_ns=WRITTEN + SECOND)}
    assert len(plan_sync(scan, known, "now", is_local=True)) == 1
