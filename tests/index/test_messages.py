"""The rows of messages are a function of the notes: however a thread was edited, they equal those built anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsync.memory import Memory
from tests.support.index_checks import check_sound
from tests.support.sampling import fewer

PARTS = st.sampled_from(
    [
        "## user @ 2026-11-21 10:02\n\nHi\n",
        "## assistant @ 2026-11-21 10:03 {model=a in=10 out=5 cost=0.001}\n\nHo\n\n### Sub\n\nMore\n",
        "## agent:finder {in=x cost=1e9 task=t}\n\nFound\n",
        '## message @ 2026-11-21 10:04 {role="user @ x" id=m1}\n\n',
        "## Ordinary\n\nText\n",
        "# Title\n\nText\n",
        "```\n## user\n```\n",
        "\n",
    ]
)
HEADS = st.sampled_from(["", "---\nsession: s1\n---\n\n", "---\nkind: note\n---\n\n", "---\narchived: true\n---\n\n"])
VERSIONS = st.lists(st.tuples(HEADS, st.lists(PARTS, max_size=6)), min_size=2, max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=fewer(15, 5), deadline=None)
@given(versions=VERSIONS, is_deleted=st.booleans())
def test_rows_are_those_of_an_index_built_anew(
    memory: Memory, root: Path, versions: list[tuple[str, list[str]]], is_deleted: bool
) -> None:
    """Messages added, changed, moved and gone; a thread that becomes a note, and one that is deleted."""
    thread = root / "threads/t.md"
    thread.parent.mkdir(exist_ok=True)
    for head, parts in versions:
        thread.write_text(head + "\n".join(parts))
        memory.sync()
        difference = memory.verify()
        assert difference is None, difference
    if is_deleted:
        thread.unlink()
        memory.sync()
        assert memory.verify() is None
    check_sound(memory)


@pytest.mark.parametrize(
    ("says", "usage"),
    [
        ("in=10 out=5 cost=0.1", (10, 5, 0.1)),
        ("in=-1 out=1.5 cost=-2", (0, 0, 0.0)),
        ("in=٣ out=9999999999999999999 cost=nan", (0, 0, 0.0)),
        ("cost=1e400", (0, 0, 0.0)),
        ("cost=0.0000000001", (0, 0, 0.0)),
    ],
)
def test_what_is_no_number_counts_for_nothing(
    memory: Memory, root: Path, says: str, usage: tuple[int, int, float]
) -> None:
    """A note may say what it likes; a sum must not break by it."""
    (root / "threads").mkdir()
    (root / "threads/t.md").write_text(f"## assistant {{{says}}}\n\nHo\n")
    total = memory.costs().total
    assert (total.tokens_in, total.tokens_out, total.cost) == usage
