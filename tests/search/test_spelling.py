"""Words that are typed in another way than the notes have them: with errors, joined, split, without marks."""

from __future__ import annotations

import pytest

from memsync.memory import Memory
from memsync.search.spelling import as_written
from tests.conftest import Write

NOTES = {
    "mail.md": "We receive templates each Monday; the documentation of the eigenvector is here, the runner is running.",
    "places.md": "Complementary hiding places.",
    "duty.md": "The oncall schedule of Łódź and of the straße is soft\u00adware, zero\u200bwidth, w\u2060j.",
    "rotation.md": "Today the on-call rotation runs node v18.17.1 with go1.21.3 for Ærø 😀 and 👩\u200d💻.",
    "phone.md": "Who is on call reads pages 18 and 17, and 1 of 21 or 3. Đà Nẵng, København, Þór, ısı, Ёлка, ﬁle.",
    "persian.md": "او می\u200cخواهد بیاید, مى خواهد.",
}


@pytest.fixture
def notes(memory: Memory, write: Write) -> Memory:
    """Return notes with words that are typed in several ways."""
    for path, text in NOTES.items():
        write(path, f"{text}\n")
    memory.sync()
    return memory


@pytest.mark.parametrize(
    ("typed", "also"),
    [
        ("recieve", "receive"),
        ("templaets", "templates"),
        ("eigenvecter", "eigenvector"),
        ("erceive", "receive"),
        ("eceive", "receive"),
        ("Documentatoin", "documentation"),
        ("dokumentatoin", "documentation"),
        ("ruunning", "running"),
        ("complementay", "complementary"),
        ("hidinng", "hiding"),
        ("scheduel oncall", "schedule"),
        ("when do we recieve templaets", "receive, templates"),
        ("inthe", ""),  # `in the` stands nowhere
        ("andof", "and of"),
    ],
)
def test_a_word_that_no_note_has_is_looked_up_with_its_errors_mended(notes: Memory, typed: str, also: str) -> None:
    """By words and by meaning; the answer says so, and marks the word in the snippet."""
    for mode in ("keyword", "hybrid"):
        found = notes.search(typed, mode=mode, min_score=0.0)
        assert ", ".join(found.also_searched) == also
        if also:
            first = found.hits[0]
            marked = {first.snippet[start:end].replace("\u00ad", "") for start, end in first.highlights}
            assert set(also.split(", ")[0].split()) <= {word.lower() for word in marked}


@pytest.mark.parametrize(
    "typed",
    [
        '"recieve"',
        "all:recieve",
        "recieve1",
        "r3cieve",
        "receive",
        "runs",
        "rec",
        "recie*",
        "receives",
        "in:recieve/ receive",
        "where:status=recieve receive",
        "receive -recieve",
        "aaaa bbbb cccc recieve",
        "restaurant",  # a word that the model knows is no error
        "wahoo",  # two errors need six letters
        "用户偏好",
    ],
)
def test_what_is_looked_up_only_as_it_is(notes: Memory, typed: str) -> None:
    """Quoted words, identifiers, known words, values of filters, and the words of a question about something else."""
    assert notes.search(typed, mode="keyword").also_searched == ()


@pytest.mark.parametrize(
    ("typed", "paths"),
    [
        ("oncall", "duty rotation phone"),
        ("on-call", "rotation phone duty"),
        ("on call", "rotation phone duty"),
        ("18.17.1", "rotation phone"),
        ("v18.17.1", "rotation phone"),
        ("V18", "rotation"),
        ('"node v18.17.1"', "rotation"),
        ('"node 18.17"', "rotation"),
        ("1.21.3", "rotation phone"),
        ("go1.21.3", "rotation phone"),
        ("go1", "rotation"),
        ("lodz", "duty"),
        ("ŁÓDŹ", "duty"),
        ("strasse STRAẞE", "duty"),
        ("aero", "rotation"),
        ("Ærø", "rotation"),
        ("da nang", "phone"),
        ("kobenhavn", "phone"),
        ("thor", "phone"),
        ("isi", "phone"),
        ("İSİ", "phone"),
        ("елка", "phone"),
        ("file", "phone"),
        ("software", "duty"),
        ("soft\u00adware", "duty"),
        ("zerowidth", "duty"),
        ("w\ufeffj", "duty"),
        ("😀", "rotation"),
        ('"😀"', "rotation"),
        ("💻", "rotation"),
        ("👩\u200d💻", "rotation"),
        ("🎈", ""),
        ("می\u200cخواهد", "persian"),
        ("می خواهد", "persian"),
    ],
)
def test_forms_of_a_word_find_each_other(notes: Memory, typed: str, paths: str) -> None:
    """Compounds, versions with and without letters before them, letters with marks, invisible characters, emoji."""
    hits = notes.search(typed, mode="keyword").hits
    assert {hit.path for hit in hits} == {f"{name}.md" for name in paths.split()}
    assert not hits or hits[0].path == f"{paths.split()[0]}.md"
    assert not hits or hits[0].highlights


def test_word_in_place_of_another_is_shown_as_the_notes_write_it() -> None:
    """The index has its stem only."""
    texts = ["A warning of the oracle.", "Ключи, garages"]
    for found, written in (("warns", "warning"), ("oracll", "oracle"), ("ключs", "ключи"), ("garagent", "garages")):
        assert as_written(found, texts) == written
    assert as_written("heron", texts) == "heron"


def test_word_that_is_still_being_typed_is_no_error(memory: Memory, write: Write) -> None:
    """Only its last letter may have been forgotten."""
    write("a.md", "The eigenvector of a template, and a temple.\n")
    memory.sync()
    for typed, also in (("eigenve", ()), ("templ", ()), ("eigenvecto", ("eigenvector",))):
        assert memory.search(typed, mode="keyword").also_searched == also
