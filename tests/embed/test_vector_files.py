"""`memsync index vectors`: the cache goes to another machine whole and unchanged, or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import apsw
import numpy as np
import pytest
from msgspec.structs import asdict

from memsync.embed.cache import vector_files
from memsync.embed.cache.cache import SqliteVectorCache
from memsync.embed.cache.cache_database import PAGE_BYTES, checksum
from memsync.embed.cache.vector_files import Exchanged, export_vectors, import_vectors
from memsync.errors import IndexBusy, IndexDamaged, IndexFailure, UsageError
from memsync.model.query import EmbeddingSpace
from memsync.wiring import vector_cache_path
from tests.conftest import Patch
from tests.support.daemon_process import Cli

SPACE = EmbeddingSpace("fake", "small", "1", 16)
OTHER = EmbeddingSpace("fake", "large", "1", 32, "query: ", "passage: ")
LARGE = 1_000_000_000
Vectors = dict[bytes, bytes]


def quiet(what: str, done: int, total: int) -> None:
    """Show no progress."""


def random_vectors(count: int, space: EmbeddingSpace = SPACE, seed: int = 0) -> list[tuple[bytes, Any]]:
    """Return so many unit vectors, each with a hash."""
    rng = np.random.default_rng(seed)
    found = rng.normal(size=(count, space.dimension)).astype(np.float32)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return [(hashlib.sha256(f"{seed} {number}".encode()).digest(), vector) for number, vector in enumerate(found)]


def filled(path: Path, *contents: tuple[EmbeddingSpace, list[tuple[bytes, Any]]]) -> Path:
    """Make a cache that holds these vectors."""
    with closing(SqliteVectorCache(path, LARGE)) as cache:
        for space, vectors in contents:
            assert cache.put(space, vectors)
    return path


def held(path: Path) -> dict[str, Vectors]:
    """Return what a cache holds, by the names of its spaces."""
    if not path.exists():
        return {}
    statement = "SELECT s.name, v.hash, v.value FROM vector v JOIN space s ON s.id = v.space"
    found: dict[str, Vectors] = {}
    with closing(apsw.Connection(str(path))) as connection:
        for name, digest, value in connection.execute(statement):
            found.setdefault(str(name), {})[digest] = value
    return found


def exported(path: Path, *names: str) -> bytes:
    stream = io.BytesIO()
    export_vectors(path, names, stream, quiet)
    return stream.getvalue()


def imported(path: Path, content: bytes, most_bytes: int = LARGE) -> list[Exchanged]:
    return import_vectors(path, most_bytes, io.BytesIO(content), quiet)


def changed(content: bytes, *statements: str) -> bytes:
    """Return a file of vectors after SQL statements, which may use `crc32(hash, value)`."""
    with NamedTemporaryFile() as file, closing(apsw.Connection(file.name)) as connection:
        Path(file.name).write_bytes(content)
        connection.create_scalar_function("crc32", lambda *row: checksum(*row))
        connection.execute(";".join(["BEGIN", *statements, "COMMIT"]))
        return Path(file.name).read_bytes()


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Make the cache of one machine, with two spaces."""
    return filled(
        tmp_path / "here" / "v.db", (SPACE, random_vectors(2_500)), (OTHER, random_vectors(30, OTHER, seed=1))
    )


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Name the cache of another machine, which has none yet."""
    return tmp_path / "there" / "v.db"


def test_cache_arrives_byte_for_byte(here: Path, there: Path) -> None:
    """Every space and every intact vector. What is there already stays, even if it was rounded otherwise."""
    filled(there, (SPACE, [(digest, vector + np.float32(0.0005)) for digest, vector in random_vectors(100)]))
    ours = held(there)[SPACE.name]
    with closing(apsw.Connection(str(here))) as connection:
        connection.execute("UPDATE vector SET checksum = checksum + 1 WHERE id = 2500")
    content = exported(here)
    done = imported(there, content)
    assert done == [Exchanged(SPACE.name, 2_499, 2_399), Exchanged(OTHER.name, 30, 30)]
    assert held(there)[OTHER.name] == held(here)[OTHER.name]
    assert held(there)[SPACE.name].items() - ours.items() == set([*held(here)[SPACE.name].items()][100:2_499])
    assert ours.items() <= held(there)[SPACE.name].items()
    assert [one.added for one in imported(there, content)] == [0, 0]


@pytest.mark.parametrize("name", [OTHER.name, "large"])
def test_one_space_can_be_chosen_by_its_name_or_its_model(here: Path, there: Path, name: str) -> None:
    """A name that no space has is an error that tells of those there are."""
    imported(there, exported(here, name))
    assert held(there) == {OTHER.name: held(here)[OTHER.name]}
    with pytest.raises(UsageError, match="no space huge") as caught:
        exported(here, name, "huge")
    assert SPACE.name in caught.value.hint


# -------------------------------------------------------------------------------------------- refused


def refused(there: Path, content: bytes, reason: str, most_bytes: int = LARGE) -> None:
    """Check that a file is refused for a reason, and that nothing of it is kept."""
    filled(there, (SPACE, random_vectors(5, seed=9)))
    before = held(there)
    with pytest.raises(UsageError, match=reason) as caught:
        imported(there, content, most_bytes)
    assert caught.value.hint
    assert held(there) == before


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Export ten vectors."""
    return exported(filled(tmp_path_factory.mktemp("small") / "v.db", (SPACE, random_vectors(10))))


def test_file_that_is_cut_off_or_has_one_changed_byte_is_refused(small: bytes, there: Path) -> None:
    """Wherever that is; or it gives the same vectors: a database also has empty places, and bytes that do not count."""
    for length in [*range(0, len(small), 509), *range(0, len(small), PAGE_BYTES), len(small) - 1]:
        with pytest.raises(UsageError, match="was not imported"):
            imported(there, small[:length])
    right = {digest: bytes(vector.astype("<f2").tobytes()) for digest, vector in random_vectors(10)}
    written = [position for position, byte in enumerate(small) if byte]
    for position in [*range(110), *written[::29], *range(0, len(small), 997)]:
        wrong = bytearray(small)
        wrong[position] ^= 1
        try:
            imported(there, bytes(wrong))
        except UsageError as error:
            assert "was not imported" in error.message and held(there) == {}
        else:
            assert held(there) == {SPACE.name: right}
            there.unlink()


SUMMED = "UPDATE vector SET checksum = crc32(hash, value)"


def number(value: str) -> list[str]:
    """Return statements that set the first component of a vector to a float16 in hexadecimal."""
    return [f"UPDATE vector SET value = CAST(x'{value}' || substr(value, 3) AS BLOB) WHERE id = 3", SUMMED]


def described(**fields: Any) -> list[str]:
    """Return statements that describe the space differently, under the name that fits."""
    space = EmbeddingSpace(**{**asdict(SPACE), **fields})
    return [f"UPDATE space SET name = '{space.name}', description = '{space.description}'"]


RECURSIVE = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
HOSTILE: dict[str, list[str]] = {
    "an endless view": ["DROP TABLE space", f"CREATE VIEW space AS {RECURSIVE} SELECT i AS id, 'a' AS name, 'b' AS "
                        "description FROM n"],
    "a trigger": ["CREATE TRIGGER t AFTER INSERT ON vector BEGIN DELETE FROM space; END"],
    "a virtual table": ["CREATE VIRTUAL TABLE x USING fts5(a)"],
    "an index on an expression": ["CREATE INDEX x ON vector (zeroblob(id))"],
    "a table of another form": ["ALTER TABLE vector ADD COLUMN x INTEGER AS (abs(id))"],
    "no table": ["DROP TABLE vector"],
    "more tables than can be read in a minute": ["PRAGMA writable_schema = 1", f"{RECURSIVE} INSERT INTO sqlite_schema "
        "SELECT 'table', 't' || i, 't' || i, 2, 'CREATE TABLE t' || i || ' (a)' FROM n LIMIT 200000"],
    "a later version": ["PRAGMA user_version = 2"],
    "too many spaces": [f"{RECURSIVE} INSERT INTO space (name, description) SELECT i, i FROM n LIMIT 100"],
    "a space with another name": ["UPDATE space SET name = 'x'"],
    "a description that is none": ["UPDATE space SET description = '{}'"],
    "a description that is nested deeply": [f"UPDATE space SET description = '{'[' * 50_000}'"],
    "a description of any length": ["UPDATE space SET description = printf('%.*c', 300000, ' ') || description"],
    "a description that is not UTF-8": ["UPDATE space SET description = CAST(x'ff' AS TEXT)"],
    "another dimension": described(dimension=17),
    "no dimension": [*described(dimension=0), "UPDATE vector SET value = x''", SUMMED],
    "a dimension below zero": described(dimension=-1),
    "a huge dimension": described(dimension=100_000_000),
    "a wrong checksum": ["UPDATE vector SET checksum = checksum + 1 WHERE id = 3"],
    "a short vector": ["UPDATE vector SET value = x'00' WHERE id = 3", SUMMED],
    "a huge vector": ["UPDATE vector SET value = zeroblob(10000000) WHERE id = 3"],
    "a hash of another size": ["UPDATE vector SET hash = x'00' WHERE id = 3", SUMMED],
    "not a number": number("007e"),
    "infinite": number("007c"),
    "too long": number("0044"),
}  # fmt: skip


REFUSED: dict[str, list[str] | bytes] = {
    **HOSTILE, "nothing": b"", "text": b"a text\n" * 100, "an old format": b"PK\3\4" * 5_000, "zeroes": bytes(50_000),
}  # fmt: skip


@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED)
def test_hostile_file_is_refused_with_a_hint_and_changes_nothing(
    small: bytes, there: Path, given: list[str] | bytes
) -> None:
    """Nothing in it is run or followed; each message says that the file was not imported."""
    refused(there, given if isinstance(given, bytes) else changed(small, *given), "was not imported")


def test_vectors_of_another_space_under_the_same_name_refuse_the_file(tmp_path: Path, there: Path) -> None:
    """Of another model, which texts that both caches know show; or of a space whose name is made of other parts."""
    filled(there, (SPACE, random_vectors(10)), (split := EmbeddingSpace("a|b", "c", "1", 16), random_vectors(3)))
    turned = [(digest, np.roll(vector, 1)) for digest, vector in random_vectors(1)]
    refused(there, exported(filled(tmp_path / "v.db", (SPACE, turned + random_vectors(10)[1:]))), "differ from those")
    same = EmbeddingSpace("a", "b|c", "1", 16)
    assert split.name == same.name
    content = exported(filled(tmp_path / "w.db", (same, random_vectors(3, seed=1))))
    refused(there, content, "describes its spaces differently from the cache")


def test_file_larger_than_the_cache_may_be_is_refused(small: bytes, there: Path) -> None:
    """Before it is opened, and before an endless pipe fills the disk."""
    refused(there, small, "larger than the 0 MB", most_bytes=len(small) - 1)
    with pytest.raises(UsageError, match="larger than the 2 MB") as caught, open("/dev/zero", "rb") as zeros:
        import_vectors(there, 2_000_000, zeros, quiet)
    assert "--space" in caught.value.hint


# ---------------------------------------------------------------------------------------- the database


def test_locked_and_damaged_caches_are_errors_that_say_what_to_do(here: Path, there: Path, monkeypatch: Patch) -> None:
    """Unlike a sync, these commands are about the cache itself."""
    content = exported(here)
    monkeypatch.setattr(vector_files, "BUSY_MS", 10)
    with closing(apsw.Connection(str(here))) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(IndexBusy):
            imported(here, content)
        assert len(exported(here)) == len(content)
        holder.execute("ROLLBACK")
    filled(there, (SPACE, random_vectors(1)))
    there.write_bytes(b"no database" * 1_000)
    with pytest.raises(IndexDamaged, match="damaged"):
        imported(there, content)
    with pytest.raises(IndexDamaged, match="damaged"):
        exported(there)


# ------------------------------------------------------------------------------------------ the command


@pytest.fixture
def synced(cli: Cli, root: Path) -> Cli:
    """Sync three notes, and check what the cache has of them."""
    for number in range(3):
        (root / f"n{number}.md").write_text(f"The heron of note {number} nests in the alder.\n")
    assert cli("sync").returncode == 0
    return cli


def space_name(cli: Cli) -> str:
    (space,) = json.loads(cli("index", "vectors", "status", "--json").stdout)["spaces"]
    assert space["vectors"] == 3
    return str(space["name"])


def test_vectors_go_to_another_machine_and_are_not_computed_there(synced: Cli, tmp_path: Path) -> None:
    """As a file for its owner's eyes only, or as standard output with nothing else; no memory root is needed there."""
    (elsewhere := tmp_path / "elsewhere").mkdir()
    there = {"XDG_STATE_HOME": str(tmp_path / "other-state")}
    vectors = [sys.executable, "-m", "memsync", "index", "vectors"]
    run: Any = partial(subprocess.run, capture_output=True, check=True, cwd=elsewhere, env=os.environ | there)
    file = tmp_path / "v.db"
    done = synced("index", "vectors", "export", str(file))
    assert (done.returncode, done.stdout) == (0, f"{space_name(synced)}: 3 vectors written\n")
    assert file.stat().st_mode & 0o777 == 0o600
    imported = json.loads(run([*vectors, "import", str(file), "--json"]).stdout)
    assert imported["spaces"] == [{"name": space_name(synced), "vectors": 3, "added": 3}]
    report = json.loads(synced("sync", "--json", environ=there).stdout)
    assert (report["vectors_computed"], report["vectors_reused"]) == (0, 3)
    piped = subprocess.run([*vectors, "export", "-"], capture_output=True, check=True, cwd=elsewhere)
    assert b"3 vectors written" in piped.stderr
    assert b"0 vectors added, 3 already" in run([*vectors, "import", "-"], input=piped.stdout).stdout
    refused = synced("index", "vectors", "export", "-", "--json")
    assert (refused.returncode, refused.stdout) == (2, "")


def test_status_tells_spaces_size_and_bound(synced: Cli, tmp_path: Path) -> None:
    """For people and as JSON; also where there is no cache."""
    found = json.loads(synced("index", "vectors", "status", "--json").stdout)
    assert found["path"] == str(vector_cache_path())
    assert 0 < found["bytes"] < found["most_bytes"] == 512_000_000
    assert f"{space_name(synced)}: 3 vectors" in synced("index", "vectors", "status").stdout
    none = synced("index", "vectors", "status", environ={"XDG_STATE_HOME": str(tmp_path / "none")}).stdout
    assert "of at most 512 MB" in none and "3 vectors" not in none


def test_export_overwrites_nothing_unless_forced(synced: Cli, tmp_path: Path) -> None:
    """And with --force only a file, in one step."""
    file = tmp_path / "v.db"
    file.write_text("mine")
    done = synced("index", "vectors", "export", str(file))
    assert (done.returncode, file.read_text()) == (2, "mine")
    assert "--force" in done.stderr
    done = synced("index", "vectors", "export", str(file), "--space", "nosuch", "--force")
    assert (done.returncode, file.read_text()) == (2, "mine")
    assert synced("index", "vectors", "export", "--force", str(file)).returncode == 0
    assert file.read_bytes().startswith(b"SQLite format 3")
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert synced("index", "vectors", "export", "--force", str(pipe)).returncode == 2
    assert synced("index", "vectors", "export", str(tmp_path / "no" / "v.db")).returncode == 9


def test_failed_export_leaves_no_file(tmp_path: Path) -> None:
    """No file may become larger than some of what is to be written."""
    space = EmbeddingSpace("fake", "wide", "1", 384)
    filled(vector_cache_path(), (space, random_vectors(1_000, space)))
    file = tmp_path / "v.db"
    code = (
        "import resource, sys; from memsync.cli.main import main\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        f"main(['index', 'vectors', 'export', {str(file)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, file.exists()) == (IndexFailure.exit_code, False), done.stderr


def test_import_that_is_killed_leaves_the_old_cache(there: Path, tmp_path: Path) -> None:
    """In its midst, having written much already; the next one can write at once."""
    before = held(filled(there, (SPACE, random_vectors(3, seed=9))))
    content = exported(filled(tmp_path / "here.db", (SPACE, random_vectors(20_000))))
    (tmp_path / "v.db").write_bytes(content)
    code = """
import os, signal, sys
from pathlib import Path
from memsync.embed.cache.vector_files import import_vectors
with open(sys.argv[1], "rb") as file:
    import_vectors(Path(sys.argv[2]), 10**9, file, lambda *given: os.kill(os.getpid(), signal.SIGKILL))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "v.db"), str(there)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert held(there) == before
    assert imported(there, content) == [Exchanged(SPACE.name, 20_000, 20_000)]
