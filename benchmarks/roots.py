"""One search of several registered memories, each with its daemon, over the slowest of them alone."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.figures import Row, ms_over, ratio_row, seconds
from benchmarks.measures import rfc_questions
from benchmarks.memories import own_user_folders, serving
from memsync.memories.several import Memories
from memsync.search.retrievals import percentile
from memsync.settings.roots import RegisteredRoot

MEMORIES = 5
ROUNDS = 3


def five(data: Path, state: Path) -> list[Row]:
    """Search five fifths of the RFCs at once, in turn with each of them alone."""
    questions = rfc_questions(data)
    with own_user_folders(state), tempfile.TemporaryDirectory(dir=state) as folder, ExitStack() as stack:
        roots = {}
        for part in range(MEMORIES):
            name = f"part{part}"
            root = Path(folder) / name
            _copy_part(data / "rfcs", root, part)
            stack.enter_context(serving(root))
            roots[name] = RegisteredRoot(name, str(root))
        together = stack.enter_context(Memories(roots))
        alone = [stack.enter_context(Memories({name: root})) for name, root in roots.items()]
        searches: list[Callable[[str], object]] = [together.search, *(memories.search for memories in alone)]
        for text in questions:
            for search in searches:
                search(text)
        times = [[seconds(search, text) for search in searches] for text in questions * ROUNDS]
    slowest = max(range(1, MEMORIES + 1), key=lambda number: median(row[number] for row in times))
    rows = []
    for share in (0.5, 0.95):
        at_once, single = (percentile([row[number] for row in times], share) for number in (0, slowest))
        measure = f"search of {MEMORIES} registered memories with daemons over the slowest alone: p{share * 100:.0f}"
        rows.append(ratio_row(measure, at_once / single, 1.3, ms_over(at_once, single, 1)))
    return rows


def _copy_part(source: Path, root: Path, part: int) -> None:
    for file in sorted(source.rglob("*.md"))[part::MEMORIES]:
        target = root / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
