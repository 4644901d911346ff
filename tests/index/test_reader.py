"""Candidates of the SQLite index: what the filters leave, what the words find, and that nothing typed breaks it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from msgspec import structs

from memsync.errors import IndexFailure, UsageError
from memsync.index.sqlite import schema
from memsync.index.sqlite.schema import capabilities
from memsync.memory import Memory
from memsync.model.query import Candidate, Query, SearchRequest
from tests.conftest import FakeEmbedder, Write
from tests.support.sampling import fewer


@pytest.fixture
def crowd(memory: Memory, write: Write) -> Memory:
    """500 notes of equal words, of which five are in `rare/` and differ in every other way a filter can ask for."""
    for number in range(495):
        write(f"common/n{number:03}.md", f"The heron nests in alder {number}.\n")
    head = "---\ntags: [odd]\ntier: personal\nsession: s9\nmood: calm\ndate: 2020-02-02\n---\n"
    for number in range(5):
        write(
            f"rare/r{number}.md", f"{head}The heron nests in alder.\n\n## user @ 2020-02-02 10:00\n\nHeron {number}.\n"
        )
    memory.sync()
    return memory


def paths(memory: Memory, candidates: Sequence[Candidate]) -> list[str]:
    with memory.index.reading() as reader:
        chunks = reader.chunks([candidate.chunk_id for candidate in candidates])
    return [chunks[candidate.chunk_id].path for candidate in candidates]


def parsed(memory: Memory, text: str, filters: dict[str, Any]) -> Query:
    query = memory.parse(SearchRequest(text))
    return structs.replace(query, filters=structs.replace(query.filters, **filters))


def keyword(memory: Memory, text: str, limit: int = 20, **filters: Any) -> list[str]:
    """Return the paths that the word index gives for what a person typed."""
    query = parsed(memory, text, filters)
    with memory.index.reading() as reader:
        return paths(memory, reader.keyword_candidates(query, limit))


def vector(memory: Memory, embedder: FakeEmbedder, text: str, limit: int = 20, **filters: Any) -> list[str]:
    """Return the paths that the vectors give for what a person typed."""
    query = parsed(memory, text, filters)
    with memory.index.reading() as reader:
        return paths(memory, reader.vector_candidates(query, embedder.embed_query(query.text), limit))


def test_filters_narrow_inside_each_retriever(crowd: Memory, embedder: FakeEmbedder) -> None:
    """Five notes among 500 of the same words are found by a limit of 20, by word and by vector alike."""
    rare = {f"rare/r{number}.md" for number in range(5)}
    for filters in (
        {"folders": ("rare/",)}, {"path_globs": ("rare/*",)}, {"tags": ("odd",)}, {"tiers": ("personal",)},
        {"where": (("mood", "calm"),)}, {"sessions": ("s9",)},
    ):  # fmt: skip
        assert set(keyword(crowd, "heron alder", **filters)) == rare, filters
        assert set(vector(crowd, embedder, "heron alder", **filters)) == rare, filters


def test_several_filters_are_all_required_and_values_of_one_are_alternatives(crowd: Memory) -> None:
    """AND between names, OR within one."""
    assert keyword(crowd, "heron", folders=("rare/",), tiers=("task",)) == []
    found = keyword(crowd, "heron", folders=("rare/", "common/n00"), limit=100)
    assert {path.split("/")[0] for path in found} == {"rare", "common"}


def test_archived_notes_are_hidden_unless_asked_for(memory: Memory, write: Write, embedder: FakeEmbedder) -> None:
    """Retired by folder or by front matter."""
    write("a.md", "The heron nests.\n")
    write("archive/b.md", "The heron nested.\n")
    write("c.md", "---\narchived: true\n---\nThe heron will nest.\n")
    memory.sync()
    assert keyword(memory, "heron") == vector(memory, embedder, "heron") == ["a.md"]
    assert set(keyword(memory, "heron", archived=True)) == {"a.md", "archive/b.md", "c.md"}
    assert set(keyword(memory, "heron is:archived")) == {"a.md", "archive/b.md", "c.md"}
    assert set(vector(memory, embedder, "heron", archived=True)) == {"a.md", "archive/b.md", "c.md"}


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("私たちは東京都に住んでいます。", ["東京", "東京都", "住んで", "都", "私"]),
        ("我们选择了数据库。", ["数据库", "数据", "库", "选择"]),
        ("데이터베이스를 선택했다.", ["데이터", "선택"]),
        ("เราเลือกฐานข้อมูล", ["ฐานข้อมูล", "เลือก"]),
        ("Das System heißt 漢字store.", ["漢字", "字", "store", "heißt", "漢字store"]),
    ],
)
def test_unspaced_scripts_are_found_by_any_of_their_words(
    memory: Memory, write: Write, text: str, queries: list[str]
) -> None:
    """A word within a run, one character of it, the last one too; what does not stand there is not found."""
    write("a.md", f"{text}\n")
    write("b.md", "Nothing of that kind. 猫\n")
    memory.sync()
    for query in queries:
        assert keyword(memory, query) == ["a.md"], query
    assert keyword(memory, "京東") == []


def test_unspaced_script_is_found_in_headings_names_and_tags(memory: Memory, write: Write) -> None:
    """Where a chunk stands is searched in every script."""
    write("数据库.md", "# 标题\n\nAbove. #标签\n\n" + "Filler of another kind. " * 200 + "\n\nOnly herons here.\n")
    memory.sync()
    for query in ("数据", "标题 herons", "标"):
        assert set(keyword(memory, query)) == {"数据库.md"}, query
    assert "Only herons here." in memory.search('herons "数据库"', mode="keyword", limit=1).hits[0].text


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("foo-bar", "foo.md"), ("C++", "c.md"), ("a@b.org", "mail.md"), ("café", "cafe.md"), ("CAFE", "cafe.md"),
        ("nesting", "nest.md"), ("std::vector<int>", "c.md"), ("v1.2.3", "foo.md"), ("can't", "nest.md"),
    ],
)  # fmt: skip
def test_words_are_found_whatever_their_punctuation_accents_and_endings(
    memory: Memory, write: Write, query: str, path: str
) -> None:
    """Punctuation is never an operator; accents and English endings do not matter."""
    write("foo.md", "Install foo-bar v1.2.3 today.\n")
    write("c.md", "C++ has std::vector<int>.\n")
    write("mail.md", "Write to a@b.org please.\n")
    write("cafe.md", "We met in the Café.\n")
    write("nest.md", "It nests where one can't reach.\n")
    memory.sync()
    assert keyword(memory, query)[:1] == [path]


TEXT_WITHOUT_PATTERN = "".join(hashlib.sha256(bytes([number])).hexdigest() for number in range(100))
LONG_NAME = "/".join(TEXT_WITHOUT_PATTERN[start : start + 200] for start in range(0, 3_000, 200)) + ".md"
NAMES = ["c\x1a1.md", "a\x1a0b.md", "a\tb.md", "e\u0301 🙂.md", "%s'\"$1.md", LONG_NAME]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_note_of_any_name_is_found_changed_and_forgotten(memory: Memory, write: Write, name: str) -> None:
    """A name has no characters with a meaning to the index, and may be as long as the system allows."""
    note = write(name, "The heron nests.\n")
    assert [hit.path for hit in memory.search("heron", mode="keyword").hits] == [name]
    note.write_text("The stork nests in the chimney.\n")
    assert [hit.path for hit in memory.search("stork path:*.md", mode="keyword").hits] == [name]
    assert memory.search("heron", mode="keyword").hits == ()
    note.unlink()
    assert memory.search("stork", mode="keyword").hits == ()
    assert memory.verify() is None


def test_note_with_a_long_tag_is_found_by_it(memory: Memory, write: Write) -> None:
    """Its length does not matter, nor does it keep others out of the index."""
    tag = TEXT_WITHOUT_PATTERN
    write("a.md", f"The heron nests. #{tag}\n")
    write("b.md", "The stork.\n")
    memory.sync()
    assert keyword(memory, "heron", tags=(tag,)) == ["a.md"]
    assert keyword(memory, "stork") == ["b.md"]


@hypothesis_settings(max_examples=fewer(150, 20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=60) | st.text('a"-*^:(){}+ \0漢NEARDOT', max_size=30))
def test_any_text_is_answered_or_refused_as_usage(memory: Memory, text: str) -> None:
    """Whatever is typed: an answer or a UsageError."""
    try:
        memory.search(text)
    except UsageError as error:
        assert error.hint


def test_equal_scores_share_a_rank_and_come_by_path(memory: Memory, write: Write) -> None:
    """Order of indexing decides nothing: ties go to path, then line."""
    for name in ("c.md", "a.md", "b.md"):
        write(name, "The heron nests.\n")
        memory.sync()
    (hit,) = memory.search("heron").hits
    assert [hit.citation, *hit.also] == ["a.md:1", "b.md:1", "c.md:1"]
    with memory.index.reading() as reader:
        candidates = reader.keyword_candidates(memory.parse(SearchRequest("heron")), 10)
    assert [candidate.rank for candidate in candidates] == [1, 1, 1]


def test_what_the_index_needs_of_sqlite_is_there() -> None:
    """FTS5 with contentless_delete and vec0, tried on tables of each kind."""
    library, vec0 = capabilities()
    assert tuple(int(part) for part in library.split(".")) >= (3, 51, 3)
    assert vec0.startswith("v0.1")


def test_sqlite_that_lacks_something_is_told_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build without vec0, or one that knows no contentless tables."""
    monkeypatch.setattr(schema, "load_vec0", lambda connection: None)
    with pytest.raises(IndexFailure, match="SQLite lacks") as raised:
        capabilities()
    assert raised.value.hint == "Reinstall apsw and sqlite-vec."


def test_tags_and_roles_narrow_by_whole_names_inside_each_retriever(
    memory: Memory, write: Write, embedder: FakeEmbedder
) -> None:
    """What only begins alike takes no place among the candidates, however many there are of it."""
    for number in range(30):
        write(f"n{number}.md", "The heron nests. #workshop\n")
    write("z.md", "The heron nests. #work/tools\n")
    write("y.md", "The heron nests. #WORK\n")
    memory.sync()
    for found in (keyword(memory, "heron", 2, tags=("work",)), vector(memory, embedder, "heron", 2, tags=("work",))):
        assert set(found) == {"z.md", "y.md"}
    assert keyword(memory, "heron", tags=("tools",)) == []
