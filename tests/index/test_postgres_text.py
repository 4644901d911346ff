"""What PostgreSQL must do as SQLite does: texts and the words of a note."""

from __future__ import annotations

import apsw
import psycopg
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memsync.index.fields import any_of, cjk_words, without_cjk
from memsync.index.postgres import words
from memsync.index.postgres.rows import PostgresNote, postgres_note
from memsync.index.postgres.text import storable
from memsync.index.postgres.words import row_words, terms_of
from memsync.model.vocabulary import NotePath
from memsync.notes.parse import NoteReader
from tests.support.postgres_server import shared_database

TABLE = "CREATE VIRTUAL TABLE f USING fts5 (a, b, c, cjk, tokenize='porter unicode61 remove_diacritics 2')"

_MATCHING = b"""
SELECT n, words::tsvector::text FROM unnest(%s::text[]) WITH ORDINALITY v (words, n)
WHERE words::tsvector @@ %s::text::tsquery
"""


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


WORDS = ("heron", "alder", "nest", "running", "Café", "the", "日本語", "x" * 300)
COLUMN = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)


@given(st.lists(st.tuples(COLUMN, COLUMN, COLUMN), min_size=1, max_size=6), st.data())
def test_words_and_bm25_are_those_of_fts5(rows: list[tuple[str, str, str]], data: st.DataObject) -> None:
    """So both backends find the same rows, by words, phrases, beginnings and script without spaces."""
    columns = [(*map(without_cjk, row), cjk_words(" ".join(row))) for row in rows]
    database = apsw.Connection(":memory:")
    database.execute(TABLE)
    for row in columns:
        database.execute("INSERT INTO f (a, b, c, cjk) VALUES (?, ?, ?, ?)", row)
    asked = data.draw(st.sampled_from([*WORDS, "the nest", "heron alder", "run*", "日", "nowhere"]))
    wanted = dict(
        database.execute("SELECT rowid, -bm25(f, 1.0, 1.0, 0.5, 1.0) FROM f WHERE f MATCH ?", (any_of([asked]),))
    )
    terms, index = terms_of([asked]), [row_words(row) for row in columns]
    with psycopg.connect(shared_database()) as connection:
        vectors = [row.vector(7) for row in index]
        found: dict[int, str] = dict(connection.execute(_MATCHING, (vectors, words.any_of(terms))).fetchall())
    mean = sum(row.length for row in index) / len(rows) or 1.0
    weights = {term: words.idf(len(found), len(rows)) for term in terms}
    scores = {number: words.bm25(found[number], index[number - 1].length / mean, weights) for number in found}
    assert scores == pytest.approx(wanted)


def test_row_that_is_too_large_for_postgresql_is_searched_by_its_beginning() -> None:
    """However many words it has, and however long they are."""
    found = row_words((" ".join(f"w{number} {'日' * 2_000}{number}" for number in range(20_000)), "", "", ""))
    with psycopg.connect(shared_database()) as connection:
        statement = b"SELECT v.words @@ %s::text::tsquery FROM (SELECT %s::text::tsvector AS words) v"
        assert connection.execute(statement, (terms_of(["w3"])[0].query, found.vector(7))).fetchone() == (True,)
