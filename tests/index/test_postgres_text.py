"""What PostgreSQL must do as SQLite does: texts, the words of a note and their bm25."""

from __future__ import annotations

import random

import apsw
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memsync.index.fields import Phrase
from memsync.index.postgres.keyword import Totals, WordIndex
from memsync.index.postgres.postings import Block, add_note, note_words, read_places, read_postings, without_chunks
from memsync.index.postgres.rows import PostgresNote, postgres_note
from memsync.index.postgres.text import storable
from memsync.index.rows import ChunkRows
from memsync.model.vocabulary import NotePath
from memsync.notes.parse import NoteReader


@given(st.text(st.sampled_from("\0\x1a\ud800ab")))
def test_text_of_a_question_can_be_sent(text: str) -> None:
    """It has no NUL and no lone surrogates, and is otherwise as it was."""
    assert storable(text) == "".join("\ufffd" if letter in "\0\ud800" else letter for letter in text)


_PIECES = (
    "&#0;", "[a](b%00c)", "<b%00c>", "[[b%00c|d]]", "[a]: b%00c", '{k="a\\0"}', "#ta&#0;g", "- 10:00 ada: &#x0;",
    "\n", "# a&#0;b", "text", "![i](%00.png)",
)  # fmt: skip
_HEADS = ("", '---\ntitle: "a\\0b"\ntags: ["\\0"]\n"k\\0": ["\\0", {a: "\\x00"}]\nuser: "\\u0000"\n---\n')


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(_HEADS), st.lists(st.sampled_from(_PIECES)))
def test_no_row_of_a_note_has_nul(reader: NoteReader, head: str, pieces: list[str]) -> None:
    """Whatever a file says, its rows can be stored."""
    note = postgres_note(*reader.read(NotePath("threads/a.md"), (head + "\n".join(pieces)).encode()))
    assert isinstance(note, PostgresNote)
    assert "\\x00" not in repr((note.rows.note, note.rows.links, note.rows.messages, note.facts, note.fields))
    for chunk in note.rows.chunks:
        assert "\0" not in "".join((*chunk.tags, *map(str, chunk.content[:-1]), *map("".join, chunk.columns)))


WORDS = ("heron", "alder", "nest", "running", "Café", "the", "x" * 300)
Columns = tuple[str, str, str, str]


def chunks_of(rows: list[list[Columns]]) -> list[ChunkRows]:
    """Return chunks with these rows of the word index; several rows make a group."""
    return [
        ChunkRows(b"", "", "group" if len(columns) > 1 else "text", b"", columns, number, (), ())
        for number, columns in enumerate(rows)
    ]


class Stored:
    """The word index in memory, and the same in FTS5."""

    def __init__(self, rows: list[list[Columns]], first_id: int = 250) -> None:
        note = note_words(chunks_of(rows))
        self.ids = list(range(first_id, first_id + len(rows)))
        self.blocks: dict[int, Block] = {}
        add_note(self.blocks, note, self.ids)
        self.totals = Totals(sum(map(len, rows)), int(note.lengths.sum()))
        self.database = apsw.Connection(":memory:")
        self.database.execute(
            "CREATE VIRTUAL TABLE f USING fts5"
            " (a, b, c, d, content='', tokenize='porter unicode61 remove_diacritics 2')"
        )
        for chunk, columns in zip(self.ids, rows, strict=True):
            for item, row in enumerate(columns, 1 if len(columns) > 1 else 0):
                self.database.execute(
                    "INSERT INTO f (rowid, a, b, c, d) VALUES (?, ?, ?, ?, ?)", (chunk << 8 | item, *row)
                )

    def rows(self, statement: str, parameters: dict[str, object]) -> list[tuple[object, ...]]:
        """Answer the statements of queries.py that read lists."""
        lists: dict[str, tuple[bytes, bytes]] = {}
        for _, known in sorted(self.blocks.items()):
            for word, (postings, places) in known.items():
                if word in parameters["words"]:  # type: ignore[operator]  # because it is a list
                    before = lists.get(word, (b"", b""))
                    lists[word] = (before[0] + b"".join(postings), before[1] + b"".join(places))
        if "sum(rows)" in statement:
            return [(word, len(postings) // 12) for word, (postings, _) in lists.items()]
        return [(w, p, q) if "places" in statement else (w, p) for w, (p, q) in lists.items()]


COLUMN = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
ROWS = st.lists(st.lists(st.tuples(COLUMN, COLUMN, COLUMN, COLUMN), min_size=1, max_size=3), min_size=1, max_size=12)


@given(
    rows=ROWS, asked=st.lists(st.sampled_from([*WORDS, "heron alder", "the nest", "nowhere"]), min_size=1, max_size=4)
)
def test_bm25_is_that_of_fts5(rows: list[list[Columns]], asked: list[str]) -> None:
    """To the last bit, for words and phrases, also of words that most rows have."""
    stored = Stored(rows)
    quoted = [f'"{text}"' for text in dict.fromkeys(asked)]
    statement = "SELECT rowid, -bm25(f, 1.0, 1.0, 0.5, 1.0) FROM f WHERE f MATCH ? ORDER BY 2 DESC, 1"
    any_word, every_word = (
        list(stored.database.execute(statement, (word.join(quoted),))) for word in (" OR ", " AND ")
    )
    index = WordIndex(stored.rows, stored.totals, {})
    found, with_every = index.score([Phrase(text) for text in dict.fromkeys(asked)], (), None, 1_000)
    assert list(found.items()) == any_word
    assert list(with_every.items()) == (every_word if len(quoted) > 1 else [])


@given(rows=ROWS, seed=st.integers(0, 2**16))
def test_lists_without_chunks_are_those_of_the_others(rows: list[list[Columns]], seed: int) -> None:
    """Taking chunks out gives what indexing only the others would have given."""
    stored = Stored(rows)
    gone = random.Random(seed).sample(stored.ids, len(stored.ids) // 2)
    kept = Stored([[("", "", "", "")] if number in gone else row for number, row in zip(stored.ids, rows, strict=True)])
    for number, block in stored.blocks.items():
        lists = {word: (b"".join(a), b"".join(b)) for word, (a, b) in block.items()}
        changed = {word: (a, b) for word, a, b in without_chunks(lists, gone)}
        left = {word: pair for word, pair in {**lists, **changed}.items() if pair[0]}
        wanted = kept.blocks.get(number, {})
        assert {w: (a, b) for w, (a, b) in left.items()} == {
            w: (b"".join(a), b"".join(b)) for w, (a, b) in wanted.items()
        }


@given(ROWS)
def test_places_are_those_of_the_text(rows: list[list[Columns]]) -> None:
    """Each place of a word names its row, column and offset, as FTS5 does."""
    stored = Stored(rows)
    stored.database.execute("CREATE VIRTUAL TABLE v USING fts5vocab(f, instance)")
    columns = {"a": 0, "b": 1, "c": 2, "d": 3}
    expected = {
        (word, row, columns[name], offset) for word, row, name, offset in stored.database.execute("SELECT * FROM v")
    }
    found = set()
    for block in stored.blocks.values():
        for key, (postings, places) in block.items():
            table = read_postings(postings)
            for posting, column, offset in zip(*map(list, read_places(places)), strict=True):
                chunk, packed, _ = table[posting].tolist()
                found.add((key if len(key) < 60 else "x" * 300, chunk << 8 | packed & 255, int(column), int(offset)))
    assert found == expected
