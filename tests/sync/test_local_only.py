"""Text of local-only notes never reaches a model that may run on another machine, and is found by its words."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memsync.errors import ConfigError, EmbedderError
from memsync.features.evaluation.evaluator import Evaluator
from memsync.index.sqlite.integrity import find_damage
from memsync.memory import Memory
from memsync.model.note import Note
from memsync.model.query import EmbeddingSpace
from memsync.model.vocabulary import NotePath
from memsync.notes.frontmatter import read_head
from memsync.notes.rules import PathRules
from memsync.ports import no_progress
from memsync.settings.load import Settings, load_settings, with_changes
from tests.conftest import FakeEmbedder, MakeMemory, Parse, Patch, Write
from tests.support.backends import ONLY_SQLITE
from tests.support.index_checks import database, open_database
from tests.support.sampling import fewer

pytestmark = ONLY_SQLITE
SECRET = "zanzibar"
"""A word of every private text here, and of no public one."""


class Remote(FakeEmbedder):
    """A fake model of a server. `got` has every text that it was sent, questions included."""

    def __init__(self, name: str = "remote") -> None:
        super().__init__(name, provider="openai")
        self.got: list[str] = []

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Any]:
        """Note the texts even if the server then fails: it has read them."""
        self.got += texts
        return super().embed_passages(texts, pause)

    def embed_query(self, text: str) -> Any:
        self.got.append(text)
        return super().embed_query(text)

    def assert_got_no_secret(self) -> None:
        assert not [text for text in self.got if SECRET in text.casefold()]


class Recording:
    """A reranker on this machine."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def relevance(self, question: str, texts: Sequence[str]) -> list[float]:
        self.texts += texts
        return [0.5] * len(texts)

    def unload(self) -> None:
        """Nothing is loaded."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def remote() -> Remote:
    return Remote()


def private(settings: Settings, *patterns: str) -> Settings:
    return with_changes(settings, {"privacy.local_only": ",".join(patterns)}, "test")


@pytest.fixture
def open_remote(make_memory: MakeMemory, settings: Settings, remote: Remote) -> Callable[..., Memory]:
    """Open the memory with the remote model, with these patterns of private notes."""

    def open_memory(*patterns: str, **options: Any) -> Memory:
        return make_memory(remote, own_settings=private(settings, *patterns), **options)

    return open_memory


def paths_found(memory: Memory, question: str, **options: Any) -> set[str]:
    return {hit.path for hit in memory.search(question, **options).hits}


def waiting_and_vectors(memory: Memory) -> tuple[int, int]:
    """Return how many passages wait for the active model, and how many vectors searches use."""
    connection = open_database(database(memory))
    try:
        space = connection.execute("SELECT id FROM space WHERE state = 'active'").get
        waiting: int = connection.execute("SELECT count(*) FROM pending").get
        vectors: int = connection.execute(f"SELECT count(*) FROM vec_{space}_rowids").get
        return waiting, vectors
    finally:
        connection.close()


SENT_PRIVATE = """
SELECT count(*) FROM (SELECT space, passage FROM pending UNION SELECT space, passage FROM vector) sent
JOIN passage p ON p.id = sent.passage JOIN space s ON s.id = sent.space WHERE p.local_only AND s.name GLOB 'openai*'
"""


def assert_intact(memory: Memory) -> None:
    """Check the whole index, also that no private passage waits for the remote model or has a vector of it."""
    connection = open_database(database(memory))
    try:
        assert find_damage(connection) == ""
        assert connection.execute(SENT_PRIVATE).get == 0
    finally:
        connection.close()


# ----------------------------------------------------------------------------------------- the whole way


def test_no_text_of_a_private_note_reaches_the_server(
    open_remote: MakeMemory, remote: Remote, write: Write, root: Path
) -> None:
    """Sync, edit, move, rebuild, verify, eval, import and search with rerank send public texts only."""
    write("journal/monday.md", f"# My {SECRET} plans for next spring\n\nI met {SECRET} by the old harbour.\n")
    write("notes/marked.md", f"---\nlocal-only: true\n---\n# Some {SECRET} thoughts of mine\n\nThe {SECRET} doubts.\n")
    write("threads/t.md", f"---\nlocal_only: yes\n---\n\n## user @ 2026-11-21 10:02\n\n{SECRET} one\n\n{SECRET} two\n")
    write("public.md", "# The heron on the lake in spring\n\nThe heron nests in the alder. [[public]]\n")
    reranker = Recording()
    memory = open_remote("journal/", "threads/imported*", reranker=reranker)
    memory.sync()
    assert remote.got
    write("journal/monday.md", f"# My {SECRET} plans changed once more\n\n{SECRET} left.\n" + f"- {SECRET}\n" * 9)
    assert "journal/monday.md" in paths_found(memory, "once more changed")
    (root / "journal/monday.md").rename(root / "journal/tuesday.md")
    (root / "archive/journal").mkdir(parents=True)
    (root / "journal/tuesday.md").rename(root / "archive/journal/tuesday.md")
    memory.sync()
    messages = root.parent / "export.jsonl"
    messages.write_text(json.dumps({"thread": "imported", "role": "user", "text": f"{SECRET} in a chat"}) + "\n")
    memory.import_file(messages)
    memory.rebuild(drop_vectors=True)
    assert memory.verify() is None
    assert memory.verify(recompute=True) is None
    evaluator = Evaluator(memory)
    evaluator.ask(evaluator.generated(100, no_progress), no_progress)
    memory.search("the heron in spring", rerank=True)
    memory.search("the heron in spring", archived=True)
    memory.context("the heron", thread="t")
    memory.duplicates()
    remote.assert_got_no_secret()
    assert any("heron" in text for text in remote.got)
    assert reranker.texts
    assert_intact(memory)


def test_private_notes_are_found_by_their_words_and_never_wait(open_remote: MakeMemory, write: Write) -> None:
    """Their passages have no vector, are not pending, and `status` counts them."""
    write("journal/a.md", f"We saw {SECRET} first.\n")
    write("b.md", "The heron nests.\n")
    memory = open_remote("journal/")
    report = memory.sync()
    status = memory.status()
    assert (report.vectors_computed, report.vectors_pending, report.failed) == (1, 0, ())
    assert (status.vectors, status.pending_vectors, status.local_only) == (1, 0, 1)
    assert paths_found(memory, SECRET, mode="keyword") == {"journal/a.md"}
    assert memory.search(SECRET).freshness.pending_vectors == 0


def test_a_model_on_this_machine_embeds_private_notes(
    make_memory: MakeMemory, settings: Settings, write: Write, embedder: FakeEmbedder
) -> None:
    """Nothing leaves the machine, so nothing changes."""
    write("journal/a.md", f"We saw {SECRET} first.\n")
    memory = make_memory(own_settings=private(settings, "journal/"))
    assert memory.sync().vectors_computed == 1
    assert any(SECRET in text for text in embedder.seen)
    assert memory.status().local_only == 0


def test_only_known_providers_count_as_local() -> None:
    """A model that memsync does not know may send its texts anywhere."""
    spaces = {name: EmbeddingSpace(name, "m", "", 8).is_remote for name in ("minilm", "multilingual", "fastembed")}
    assert not any(spaces.values())
    assert all(EmbeddingSpace(name, "m", "", 8).is_remote for name in ("openai", "new", ""))


# ------------------------------------------------------------------------------------- changes of the mark


def test_setting_takes_effect_at_the_next_sync_in_both_directions(
    open_remote: MakeMemory, remote: Remote, write: Write
) -> None:
    """A note that becomes private loses its vectors; a note that becomes public gets them."""
    write("journal/a.md", "The swan left early.\n\n## Later\n\nThe swan came back.\n")
    write("b.md", "The heron nests.\n")
    assert waiting_and_vectors(synced(open_remote())) == (0, 3)
    hidden = synced(open_remote("journal/"))
    assert waiting_and_vectors(hidden) == (0, 1)
    with hidden.index.reading() as reader:
        assert len(reader.vectors(remote.space, b"", 10)) == 1
    assert_intact(hidden)
    remote.got.clear()
    shown = synced(open_remote())
    assert waiting_and_vectors(shown) == (0, 3)
    assert remote.got == []  # the cache has the vectors from when it was public
    assert_intact(shown)


def synced(memory: Memory) -> Memory:
    memory.sync()
    return memory


def test_text_that_waits_leaves_the_queue_when_its_note_becomes_private(
    open_remote: MakeMemory, remote: Remote, write: Write
) -> None:
    """A server that did not answer must not get the text later."""
    write("a.md", f"The {SECRET} left early.\n")
    memory = open_remote()
    remote.fail = EmbedderError("the server is down")
    assert memory.sync().vectors_pending == 1
    remote.fail = None
    remote.got.clear()
    write("a.md", f"---\nlocal-only: true\n---\nThe {SECRET} left early.\n")
    memory.sync()
    remote.assert_got_no_secret()
    assert waiting_and_vectors(memory) == (0, 0)


def test_text_of_a_note_that_has_just_become_private_is_not_sent(
    open_remote: MakeMemory, remote: Remote, write: Write
) -> None:
    """If the index does not know the mark yet, the file decides: the text is read from it at the last moment."""
    write("a.md", "The heron nests.\n")
    memory = synced(open_remote())
    path = write("b.md", f"The {SECRET} left early.\n")
    memory.syncer.refresh()
    path.write_text(f"---\nlocal-only: true\n---\nThe {SECRET} left early.\n")
    memory.syncer.embed_leftovers()
    memory.syncer.embed_in_background()
    remote.assert_got_no_secret()


def test_change_to_a_remote_model_embeds_public_notes_only(
    make_memory: MakeMemory, settings: Settings, write: Write, embedder: FakeEmbedder, remote: Remote
) -> None:
    """The vectors of a local model stay in use until those of the remote one are complete, without private notes."""
    write("journal/a.md", f"We saw {SECRET} first.\n")
    write("b.md", "The heron nests.\n")
    own = private(settings, "journal/")
    synced(make_memory(own_settings=own))
    memory = synced(make_memory(remote, old=embedder, own_settings=own))
    assert memory.status().space == remote.space.name
    assert waiting_and_vectors(memory) == (0, 1)
    back = synced(make_memory(embedder, old=remote, own_settings=own))
    assert waiting_and_vectors(back) == (0, 2)
    remote.assert_got_no_secret()
    assert_intact(back)


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=fewer(25, 5))
@given(data=st.data())
def test_any_history_of_marks_and_moves_gives_the_vectors_of_public_texts(
    data: st.DataObject, open_remote: MakeMemory, root: Path, write: Write
) -> None:
    """After each sync the passages with a vector are exactly those that a public note has."""
    for old in root.rglob("*.md"):
        old.unlink()
    memory = open_remote("journal/")
    names = ["a.md", "b.md", "journal/a.md", "journal/b.md"]
    texts = ["The swan left.", "The heron nests.", "A coot dives."]
    for _ in range(data.draw(st.integers(2, 5))):
        for name in data.draw(st.lists(st.sampled_from(names), unique=True)):
            chosen = data.draw(st.lists(st.sampled_from(texts), unique=True))
            head = data.draw(st.sampled_from(["", "---\nlocal-only: yes\n---\n"]))
            if chosen:
                write(name, head + "\n".join(f"## {text[-6:-1]}\n\n{text}\n" for text in chosen))
            else:
                (root / name).unlink(missing_ok=True)
        memory.sync()
        public = {
            line
            for path in root.rglob("*.md")
            if "journal" not in path.parts and "local-only" not in path.read_text()
            for line in path.read_text().splitlines()
            if line in texts
        }
        assert waiting_and_vectors(memory) == (0, len(public))
        assert_intact(memory)


# -------------------------------------------------------------------------------------- ways to mark a note

_MARKS = [
    "local-only: true", "local_only: true", "Local-Only: TRUE", "LOCAL_ONLY: yes", "local-only: 'true'",
    'local-only: "yes"', "'local-only': on", '"local_only": 1', "localonly: true", "local only: true",
    "local-only: True # mine", "local\u2011only: true", "local-only:", "local-only: perhaps", "local-only: [true]",
    "local-only:true", "local-only: ja",
]  # fmt: skip
_NOT_MARKS = [
    "local-only: false", "local_only: no", "local-only: 'false'", "Local-Only: OFF", "local-only: 0",
    "title: local-only", "localonlyish: true", "tags: [local-only]",
]  # fmt: skip
_HEADS = [
    "---\n{}\n---\nText.\n", "---\r\n{}\r\n---\r\nText.\r\n", "\ufeff---\n{}\n---\nText.\n",
    "---\ntitle: x\n{}\n---\nText.\n",
    "---\n{}\ntitle: [unclosed\n---\nText.\n", "---\n{}\nText without an end.\n", "---\ntitle: x\n{}\n\nText.\n",
    "---\n{}\na: &x 1\nb: *x\n---\nText.\n", "\n\n---\n{}\n---\nText.\n", "---\n\tbad\n{}\n---\nText.\n",
    "---\ntitle: a\ntitle: b\n{}\n...\nText.\n",
]  # fmt: skip


@pytest.mark.parametrize("head", _HEADS)
@pytest.mark.parametrize("mark", _MARKS)
def test_each_way_to_mark_a_note_counts(parse: Parse, head: str, mark: str) -> None:
    """Any spelling counts, also in front matter that cannot be read: a damaged head must not make a note public."""
    assert parse(head.format(mark)).local_only


@pytest.mark.parametrize("head", _HEADS)
@pytest.mark.parametrize("line", _NOT_MARKS)
def test_clear_no_and_other_keys_do_not_mark_a_note(parse: Parse, head: str, line: str) -> None:
    """A note is public if it says so clearly, or says nothing."""
    assert not parse(head.format(line)).local_only


def test_mark_below_the_front_matter_is_text(parse: Parse) -> None:
    """A note about this setting is not private for that."""
    assert not parse("---\ntitle: x\n---\nWrite `local-only: true`.\n").local_only
    assert not parse("# Title\n\nlocal-only: true\n").local_only


def test_huge_front_matter_with_the_mark_counts(parse: Parse) -> None:
    """Front matter that is too large to be parsed is searched for the mark, too."""
    assert parse("---\nx: " + "y" * 70_000 + "\nlocal-only: true\n---\nText.\n").local_only


def test_unclear_value_gives_a_warning(parse: Parse) -> None:
    """The note counts as private, and its warning says why."""
    note: Note = parse("---\nlocal-only: maybe\n---\nText.\n")
    assert note.warnings == ('local-only "maybe" is not true or false: the note counts as local-only',)
    assert not parse("---\nlocal-only: 'True'\n---\nText.\n").warnings


@given(st.text(max_size=60), st.sampled_from(_MARKS[:10]), st.text(max_size=60))
def test_mark_in_any_damaged_front_matter_counts(before: str, mark: str, after: str) -> None:
    """Whatever is around the mark's line in an unclosed head, the note is private."""
    lines = ["---", *before.splitlines(), mark, *after.splitlines()]
    if not any(line.strip(" \t") in ("---", "...") for line in lines[1:]):
        assert read_head(lines).local_only


# -------------------------------------------------------------------------------------------- the setting


@pytest.mark.parametrize(
    ("pattern", "path", "is_private"),
    [
        ("journal/", "journal/a.md", True),
        ("journal/", "deep/journal/2026/a.md", True),
        ("journal/", "Journal/a.md", True),
        ("Journal/", "journal/a.md", True),
        ("journal/", "archive/journal/a.md", True),
        ("/journal/", "archive/journal/a.md", True),
        ("/journal/", "deep/journal/a.md", False),
        ("journal/", "journal.md", False),
        ("*.secret.md", "notes/a.secret.md", True),
        ("*.secret.md", "notes/a.SECRET.md", True),
        ("*.secret.md", "notes/secret.md", False),
        ("caf\u00e9/", "cafe\u0301/a.md", True),
    ],
)
def test_patterns_match_as_in_gitignore_in_any_case(pattern: str, path: str, is_private: bool) -> None:
    """A file system that ignores case must not make a folder public."""
    assert PathRules({}, {}, (pattern,)).is_local_only(NotePath(path)) is is_private


@pytest.mark.parametrize("pattern", ["!journal/", "#journal", "", "[a", "  "])
def test_pattern_that_hides_nothing_is_an_error(make_memory: MakeMemory, settings: Settings, pattern: str) -> None:
    """Nobody may believe that a note is private while its pattern matches nothing."""
    settings.values = {**settings.values, "privacy.local_only": ["ok/", pattern]}
    with pytest.raises(ConfigError, match="matches no note"):
        make_memory(own_settings=settings)


def test_patterns_of_all_config_files_and_the_environment_are_united(
    root: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    """No config file can remove a pattern of another one, least of all one that came with a clone."""
    own = tmp_path / "config/memsync/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[privacy]\nlocal_only = ["journal/"]\n')
    (root / "config.toml").write_text('[memsync]\nroot = "."\n\n[privacy]\nlocal_only = ["b/", "journal/"]\n')
    named = tmp_path / "named.toml"
    named.write_text(f'[memsync]\nroot = "{root}"\n\n[privacy]\nlocal_only = ["c/"]\n')
    for expected, options in (
        (["journal/", "b/"], {"cwd": root}),
        (["journal/", "b/"], {"root": root}),
        (["journal/", "c/", "b/"], {"config": named}),
    ):
        assert load_settings(**options)["privacy.local_only"] == expected  # type: ignore[arg-type]
    monkeypatch.setenv("MEMSYNC_PRIVACY_LOCAL_ONLY", "d/, journal/")
    (root / "config.toml").write_text('[memsync]\nroot = "."\n\n[privacy]\nlocal_only = []\n')
    loaded = load_settings(config=named)
    assert loaded["privacy.local_only"] == ["journal/", "c/", "d/"]
    assert "MEMSYNC_PRIVACY_LOCAL_ONLY" in loaded.sources["privacy.local_only"]
    assert str(own) in loaded.sources["privacy.local_only"]


def test_config_of_an_inner_folder_does_not_hide_the_patterns_of_the_outer_one(root: Path) -> None:
    """Notes that were cloned into a project may bring a config.toml; the project's own still counts."""
    (root.parent / "config.toml").write_text(f'[memsync]\nroot = "{root.name}"\n\n[privacy]\nlocal_only = ["a/"]\n')
    (root / "config.toml").write_text('[memsync]\nroot = "."\n')
    assert load_settings(cwd=root)["privacy.local_only"] == ["a/"]


def test_invalid_own_file_is_an_error_even_if_another_file_is_named(root: Path, tmp_path: Path) -> None:
    """It is unknown then which notes are private, so nothing is done."""
    own = tmp_path / "config/memsync/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[privacy\n")
    named = tmp_path / "named.toml"
    named.write_text(f'[memsync]\nroot = "{root}"\n')
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_settings(config=named)
