"""The index is a pure function of files, settings and model: whatever happened, it equals one built from the files."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from memsync.index.sqlite.index import SqliteIndex
from memsync.memory import Memory
from memsync.settings.load import Settings, load_settings
from tests.conftest import COUNTER, FakeEmbedder
from tests.support.index_checks import check_sound, dump
from tests.support.random_editor import Editor
from tests.support.sampling import sampled

STEPS = 30


def fresh_dump(root: Path, folder: Path, settings: Settings | None = None) -> list[str]:
    """Return the dump of an index that never saw anything but the files as they are."""
    settings = settings or load_settings(root=root, environ={}, cwd=root)
    embedder = FakeEmbedder()
    with Memory(settings, SqliteIndex(folder / "index.db"), COUNTER, lambda: embedder, lambda space: embedder) as fresh:
        fresh.sync()
        return dump(fresh)


@pytest.mark.slow
@pytest.mark.parametrize("seed", sampled([*range(12), *(f"fresh {number}" for number in range(12))], 6))
def test_index_after_a_random_walk_equals_one_built_from_the_files(
    seed: int | str, pytestconfig: pytest.Config, memory: Memory, root: Path, tmp_path: Path
) -> None:
    """Edits of every sort with a sync or a search now and then: dump, integrity and orphans as if nothing had been."""
    of_this_run = f"{pytestconfig.option.hypothesis_seed} {seed}"
    chance = random.Random(of_this_run if isinstance(seed, str) else seed)
    editor = Editor(root, tmp_path / "outside", chance)
    for _ in range(STEPS):
        editor.step()
        if chance.random() < 0.25:
            memory.sync()
        elif chance.random() < 0.25:
            memory.search("heron ketch")
    memory.sync()
    assert dump(memory) == fresh_dump(root, tmp_path / "fresh")
    assert memory.verify() is None
    check_sound(memory)


@pytest.mark.parametrize("seed", sampled(range(6), 1))
def test_incremental_and_rebuilt_index_answer_alike(seed: int, memory: Memory, root: Path, tmp_path: Path) -> None:
    """Word statistics follow deletions and ids decide nothing: equal files give equal hits, scores and ranks."""
    editor = Editor(root, tmp_path / "outside", random.Random(seed))
    for _ in range(STEPS):
        editor.step()
        memory.sync()
    queries = ["heron alder", "rope tide basalt", "C++ foo-bar", "漢字"]
    before = [memory.search(query).hits for query in queries]
    memory.rebuild()
    after = [memory.search(query).hits for query in queries]
    assert any(before)
    assert after == before


# --------------------------------------------------------------------------------- settings and front matter

SECTIONS = "".join(
    f"## Part {number}\n\n{'The heron nests in the alder by the pond. ' * 40}\n\n" for number in range(3)
)
ENTRIES = "".join(f"- {8 + n // 6:02d}:{n % 6}0 The heron did thing number {n} at the pond today.\n" for n in range(40))
CHANGED_SETTINGS = [
    '[kinds]\n"work/" = "thread"\n',
    '[kinds]\n"work/" = "daily"\n"/threads/" = "note"\n',
    '[tiers]\n"work/" = "personal"\n',
    '[files]\nexclude = ["work/"]\n',
]


@pytest.mark.parametrize("changed", CHANGED_SETTINGS, ids=range(len(CHANGED_SETTINGS)))
def test_changed_settings_give_the_index_that_they_would_give_a_new_memory(
    make_memory: Callable[..., Memory], root: Path, write: Callable[[str, str], Path], tmp_path: Path, changed: str
) -> None:
    """Notes are read again by the next sync without having changed; settled as they were before, they are again."""
    write("work/a.md", f"# A\n\n{SECTIONS}")
    write("work/2026-11-20.md", ENTRIES)
    write("daily/2026-11-21.md", ENTRIES)
    write("threads/t.md", "## user @ 2026-11-21 10:02\n\nWhere?\n\n## assistant @ 2026-11-21 10:03\n\nThere.\n")
    for path in root.rglob("*.md"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    config = root / "config.toml"
    dumps: list[list[str]] = []
    for text in ("", changed, ""):
        config.write_text(f'[memsync]\nroot = "."\n{text}')
        settings = load_settings(root=root, environ={}, cwd=root)
        memory = make_memory(own_settings=settings)
        memory.sync()
        assert dump(memory) == fresh_dump(root, tmp_path / f"fresh{len(dumps)}", settings)
        check_sound(memory)
        dumps.append(dump(memory))
    assert dumps[0] != dumps[1]
    assert dumps[0] == dumps[2]


def test_tag_that_became_code_leaves_a_chunk_of_the_same_words(
    memory: Memory, root: Path, write: Callable[[str, str], Path], tmp_path: Path
) -> None:
    """What a fence makes of a line cannot be seen in the pieces of it that are looked up."""
    line = "#pond " + "herons nest in the old alders by the water, " * 60
    for number, text in enumerate(
        (f"~~~~\n\n{line}\n\n~~~~\n", f"~~~~\n~~~~\n\n{line}\n", f"~~~~\n\n{line}\n\n~~~~\n")
    ):
        write("a.md", text)
        memory.sync()
        assert dump(memory) == fresh_dump(root, tmp_path / f"fresh{number}")
        assert bool(memory.search("herons tag:pond", mode="keyword").hits) is (number == 1)
    check_sound(memory)


FIELDS = {
    "title": ('"Herons"', '"Egrets"'), "kind": ("note", "daily"), "tier": ("task", "project"),
    "tags": ("[birds, work]", "[birds]"), "aliases": ("[one]", "[two]"), "session": ("s1", "s2"),
    "importance": ("0.1", "0.9"), "pinned": ("false", "true"), "archived": ("false", "true"),
    "created": ("2026-01-01", "2026-02-01"), "updated": ("2026-11-01", "2026-11-02"), "expires": ("2026-12-24", "soon"),
    "mood": ("calm", "[calm, glad]"),
    "summary": ('"Where the grey herons nest in spring"', '"Where the egrets nest in early spring"'),
}  # fmt: skip


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_of_front_matter_that_changes_is_indexed_anew(
    field: str, memory: Memory, root: Path, write: Callable[[str, str], Path], tmp_path: Path
) -> None:
    """The body is as it was, so no chunk moves; the index is still the one that the files give, as it is without."""
    body = "# Birds\n\nThe heron nests. #pond\n\n[[other]]\n"
    values = {name: before for name, (before, _) in FIELDS.items()}
    dumps: list[list[str]] = []
    for value in (*FIELDS[field], None, FIELDS[field][0]):
        head = {**values, field: value}
        lines = "".join(f"{name}: {each}\n" for name, each in head.items() if each is not None)
        write("a.md", f"---\n{lines}---\n{body}")
        memory.sync()
        dumps.append(dump(memory))
        assert dumps[-1] == fresh_dump(root, tmp_path / f"fresh{len(dumps)}")
    check_sound(memory)
    assert dumps[0] != dumps[1] != dumps[2] != dumps[3] == dumps[0]
