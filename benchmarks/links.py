"""Move every note of a vault once, and count the links that mean another file afterwards.

Each note gets another name, another folder or both, one move after the other, through the Python API. Links count as
memsync reads them, and Markdown links also as other programs do: from the folder of their note alone.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from statistics import median

from benchmarks.figures import Row, seconds
from benchmarks.memories import opened
from memsync.errors import MemsyncError
from memsync.memory import Memory
from memsync.model.vocabulary import NotePath
from memsync.notes.links import Linked

VAULT = "vault"
MAX_MOVES = 1_000
"""Of a larger vault, only so many notes are moved, evenly taken from all: each move reads every note."""
LISTED = 30
FOLDERS = ("moved", "moved/deeper", "other folder")

Resolved = Counter[tuple[str, int, str]]
"""How often a line of a note links to a file: (note, line, file)."""


def moves(data: Path, state: Path) -> list[Row]:
    """Move the notes of the folder `vault/` in the data folder."""
    source = data / VAULT
    if not any(source.rglob("*.md")):
        return [Row("links", f"skipped: no vault in {source}")]
    root = state / "links"
    shutil.copytree(source, root, ignore=shutil.ignore_patterns(".git"))
    with opened(root, state, search_mode="keyword") as memory:
        memory.sync()
        return _measured(memory)


def _measured(memory: Memory) -> list[Row]:
    before, paths_before, notes = _resolved(memory), _as_paths(memory), _notes(memory)
    step = max(1, -(-len(notes) // MAX_MOVES))
    chosen = notes[::step]
    looks = [seconds(memory.links, note) for note in chosen[:: max(1, len(chosen) // 50)]]
    moved, refused, times = dict[str, str](), list[str](), list[float]()
    for note, target in zip(chosen, _targets(chosen), strict=True):
        try:
            times.append(seconds(memory.move, note, target))
            moved[note] = target
        except MemsyncError as error:
            refused.append(f"{note} to {target}: {error.message}")
    expected = Counter({_afterwards(place, moved): number for place, number in before.items()})
    after = _resolved(memory)
    lost, new = expected - after, after - expected
    paths_expected = Counter({_afterwards(place, moved): number for place, number in paths_before.items()})
    paths_lost = paths_expected - _as_paths(memory)
    share = len(refused) / len(chosen)
    p50, slowest = (1000 * time for time in (median(times or [0.0]), max(times, default=0.0)))
    return [
        Row(f"links: lost of {before.total()} in {len(notes)} notes", lost.total(), "0", not lost),
        Row("links: that name something new", new.total(), "0", not new),
        Row(f"links: lost of {paths_before.total()} relative ones", paths_lost.total(), "0", not paths_lost),
        Row(f"links: refused of {len(chosen)} moves", share, "≤ 0.01", share <= 0.01),
        Row("links: a move, p50 and slowest", f"{p50:.0f} ms, {slowest:.0f} ms"),
        Row("links: `links` of a note, p50", f"{1000 * median(looks):.0f} ms"),
        *(Row("links: refused", reason.replace("|", "\\|")) for reason in refused[:LISTED]),
        *(Row("links: lost", f"{path}:{line} to {target}") for path, line, target in sorted(lost)[:LISTED]),
        *(Row("links: relative, lost", f"{path}:{line} to {to}") for path, line, to in sorted(paths_lost)[:LISTED]),
        *(Row("links: new", f"{path}:{line} to {target}") for path, line, target in sorted(new)[:LISTED]),
    ]


def _notes(memory: Memory) -> list[NotePath]:
    with memory.as_of_now() as (reader, _):
        return sorted(note.path for note in reader.notes())


def _resolved(memory: Memory) -> Resolved:
    with memory.as_of_now() as (reader, _):
        linked = Linked(reader.notes(), memory.files.other_files)
        targets = [(source, link.line, linked.target(link, source)) for source, link in reader.links()]
    return Counter(place for place in targets if place[2])


def _as_paths(memory: Memory) -> Resolved:
    """Return the Markdown links that name a file by a path from the folder of their note."""
    files = set(memory.files.other_files())
    found: Resolved = Counter()
    with memory.as_of_now() as (reader, _):
        for source, link in reader.links():
            path = os.path.normpath(os.path.join(os.path.dirname(source), link.target))
            if not link.wiki and link.target and path in files:
                found[source, link.line, path] += 1
    return found


def _targets(notes: Sequence[NotePath]) -> list[str]:
    """Return the new path of each note: in turn another name, another folder, and both."""
    targets = []
    for number, (note, folder) in enumerate(zip(notes, cycle(FOLDERS), strict=False)):
        place, name = os.path.split(note)
        stem, ending = os.path.splitext(name)
        # Names repeat in a vault: a folder of its own for each thousandth note would hide that from the links.
        unique = f"{stem} {number}{ending}"
        kept = f"{folder}/{number % 97}/{name}"
        targets.append((os.path.join(place, unique), kept, f"{folder}/{unique}")[number % 3])
    return targets


def _afterwards(place: tuple[str, int, str], moved: dict[str, str]) -> tuple[str, int, str]:
    source, line, target = place
    return moved.get(source, source), line, moved.get(target, target)
