"""`memsync vectors`: the cache goes to another machine whole and unchanged, or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import struct
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from memsync.embed.cache import vector_files
from memsync.embed.cache.cache import SqliteVectorCache
from memsync.embed.cache.vector_files import Exchanged, export_vectors, import_vectors
from memsync.errors import IndexBusy, IndexDamaged, MemsyncError, UsageError
from memsync.model.query import EmbeddingSpace
from memsync.wiring import vector_cache_path
from tests.support.daemon_process import Cli, until

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
    return import_vectors(path, most_bytes, io.BytesIO(content), len(content), quiet)


def file_of(*spaces: tuple[EmbeddingSpace, list[tuple[bytes, bytes]]], names: list[str] | None = None) -> bytes:
    """Return a file as its description in vector_files.py has it, written independently of the code."""
    entries = [{"name": space.name, "description": asdict(space)} for space, _ in spaces]
    for entry, name in zip(entries, names or [], strict=False):
        entry["name"] = name
    content = b"memsync vectors 1\n" + json.dumps({"spaces": entries}).encode() + b"\n"
    for _, records in spaces:
        for record in records:
            content += struct.pack("<I", 1) + record[0] + record[1]
        content += struct.pack("<I", 0)
    return content + hashlib.sha256(content).digest()


def half(vector: Any) -> bytes:
    return bytes(vector.astype("<f2").tobytes())


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
    """Every space with its description and every vector; what is there already is counted, not changed."""
    content = exported(here)
    done = imported(there, content)
    assert done == [Exchanged(SPACE.name, 2_500, 2_500), Exchanged(OTHER.name, 30, 30)]
    assert held(there) == held(here)
    assert [one.added for one in imported(there, content)] == [0, 0]
    assert held(there) == held(here)
    assert exported(there) == content


def test_form_is_the_one_that_is_described(there: Path) -> None:
    """A file that was written by hand from the description is read."""
    records = [(digest, half(vector)) for digest, vector in random_vectors(3)]
    assert imported(there, file_of((SPACE, records), (OTHER, []))) == [
        Exchanged(SPACE.name, 3, 3),
        Exchanged(OTHER.name, 0, 0),
    ]
    assert held(there) == {SPACE.name: dict(records)}


@pytest.mark.parametrize("name", [OTHER.name, "large"])
def test_one_space_can_be_chosen_by_its_name_or_its_model(here: Path, there: Path, name: str) -> None:
    """A name that no space has is an error that tells of those there are."""
    imported(there, exported(here, name))
    assert held(there) == {OTHER.name: held(here)[OTHER.name]}
    with pytest.raises(UsageError, match="no space huge") as caught:
        exported(here, name, "huge")
    assert SPACE.name in caught.value.hint


def test_vectors_that_were_computed_here_stay(here: Path, there: Path) -> None:
    """Another machine's may differ by rounding; the first one counts."""
    ours = [(digest, vector + np.float32(0.0005)) for digest, vector in random_vectors(100)]
    filled(there, (SPACE, ours))
    before = held(there)[SPACE.name]
    assert before.items() & held(here)[SPACE.name].items() == set()
    imported(there, exported(here))
    assert before.items() <= held(there)[SPACE.name].items()
    assert len(held(there)[SPACE.name]) == 2_500


# -------------------------------------------------------------------------------------------- refused


def refused(there: Path, content: bytes, reason: str, most_bytes: int = LARGE) -> None:
    """Check that a file is refused for a reason, and that nothing of it is kept."""
    filled(there, (SPACE, random_vectors(5, seed=9)))
    before = held(there)
    with pytest.raises(UsageError, match=reason) as caught:
        imported(there, content, most_bytes)
    assert caught.value.hint
    assert held(there) == before


def test_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path, there: Path) -> None:
    """At each of its bytes."""
    content = exported(filled(tmp_path / "v.db", (SPACE, random_vectors(3))))
    for length in range(len(content)):
        with pytest.raises(UsageError, match="was not imported"):
            imported(there, content[:length])
    assert held(there) == {}


def test_file_with_one_changed_byte_is_refused(tmp_path: Path, there: Path) -> None:
    """Wherever that is."""
    content = exported(filled(tmp_path / "v.db", (SPACE, random_vectors(3))))
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1
        with pytest.raises(UsageError, match="was not imported"):
            imported(there, bytes(changed))
    assert held(there) == {}


def test_file_with_something_after_its_end_is_refused(here: Path, there: Path) -> None:
    """Its sum is right, and what follows is nobody's."""
    refused(there, exported(here) + b"x", "SHA-256")


@pytest.mark.parametrize("number", [np.nan, np.inf, 0.0, 2.0])
def test_vectors_that_are_none_are_counted_and_refuse_the_file(there: Path, number: float) -> None:
    """Not finite, or not of unit length."""
    records = [(digest, half(vector)) for digest, vector in random_vectors(10)]
    records += [(bytes([n]) * 32, np.full(16, number, "<f2").tobytes()) for n in range(3)]
    refused(there, file_of((SPACE, records)), "3 of its vectors")


def test_vectors_of_another_model_under_the_same_name_are_counted_and_refuse_the_file(there: Path) -> None:
    """Where the cache knows the text, both vectors must agree."""
    theirs = random_vectors(2_000, seed=3)
    turned = [(digest, np.roll(vector, 1)) for digest, vector in theirs[:7]] + theirs[7:]
    filled(there, (SPACE, theirs[:20]))
    content = file_of((SPACE, [(digest, half(vector)) for digest, vector in turned]))
    refused(there, content, "7 of its vectors differ")


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ({"model": "tiny"}, SPACE.name),
        ({"dimension": 17}, SPACE.name),
        ({"dimension": "16"}, SPACE.name),
        ({"dimension": True}, None),
        ({"dimension": 0}, None),
        ({"dimension": -16}, None),
        ({"dimension": 10**30}, None),
        ({"model": ["small"]}, SPACE.name),
        ({"provider": None}, SPACE.name),
        ({"extra": 1}, SPACE.name),
        ({"query_prefix": "q"}, SPACE.name),
    ],
)
def test_space_whose_description_does_not_give_its_name_is_refused(
    there: Path, description: dict[str, Any], name: str | None
) -> None:
    """Or that no space can have."""
    about = {**asdict(SPACE), **description}
    if name is None:
        name = EmbeddingSpace(**about).name
    header = json.dumps({"spaces": [{"name": name, "description": about}]}).encode()
    content = b"memsync vectors 1\n" + header + b"\n" + bytes(4)
    refused(there, content + hashlib.sha256(content).digest(), "its spaces|dimensions|described")


def test_space_that_only_has_the_name_of_another_is_refused(there: Path) -> None:
    """A name can be made of other parts; its vectors would be taken for the other's."""
    split = EmbeddingSpace("a|b", "c", "1", 16)
    same = EmbeddingSpace("a", "b|c", "1", 16)
    assert split.name == same.name
    filled(there, (split, random_vectors(3)))
    refused(there, file_of((same, [])), "describes its spaces differently from the cache")


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 50_000,
        b"{}",
        b'{"spaces": []}',
        b'{"spaces": 3}',
        b'{"spaces": [3]}',
        b'{"spaces": [{"name": "x"}]}',
        b"x" * 200_000,
        b"\xff",
    ],
)
def test_header_of_any_kind_is_an_error_and_no_traceback(there: Path, header: bytes) -> None:
    """However deep, long or wrong it is."""
    content = b"memsync vectors 1\n" + header + b"\n"
    refused(there, content + hashlib.sha256(content).digest(), "its spaces cannot be read|cut off")


def test_files_of_another_version_and_of_other_kinds_are_told_apart(there: Path) -> None:
    """The one needs another memsync, the other another file."""
    refused(there, b"memsync vectors 2\n{}\n", "another version")
    refused(there, b"PK\x03\x04" * 100, "not a file of vectors")
    refused(there, b"", "not a file of vectors")


def test_file_that_holds_more_than_the_cache_may_is_refused_before_it_fills_the_disk(there: Path) -> None:
    """An endless stream, too."""
    header = json.dumps({"spaces": [{"name": SPACE.name, "description": asdict(SPACE)}]}).encode()
    block = struct.pack("<I", 1_000) + b"".join(digest + half(vector) for digest, vector in random_vectors(1_000))

    class Endless(io.RawIOBase):
        def __init__(self) -> None:
            self.given = b"memsync vectors 1\n" + header + b"\n"
            self.blocks = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            if not self.given:
                self.given, self.blocks = block, self.blocks + 1
                assert self.blocks < 100, "it is read on and on"
            count = min(len(buffer), len(self.given))
            buffer[:count], self.given = self.given[:count], self.given[count:]
            return count

    with pytest.raises(UsageError, match="larger than the 2 MB") as caught:
        import_vectors(there, 2_000_000, io.BufferedReader(Endless()), 0, quiet)
    assert "index.vector_cache_mb" in caught.value.hint
    assert held(there) == {}


@pytest.mark.parametrize("count", [2**32 - 1, 1_000_000])
def test_block_that_claims_to_be_huge_takes_no_memory(there: Path, count: int) -> None:
    """It is refused before anything is read of it."""
    header = json.dumps({"spaces": [{"name": OTHER.name, "description": asdict(OTHER)}]}).encode()
    refused(there, b"memsync vectors 1\n" + header + b"\n" + struct.pack("<I", count), "a block of")


@given(content=st.binary(max_size=400), cut=st.integers(0, 200))
def test_no_content_makes_an_import_crash(tmp_path_factory: pytest.TempPathFactory, content: bytes, cut: int) -> None:
    """Whatever follows a good beginning ends in an error of memsync's, or is right."""
    good = file_of((SPACE, [(digest, half(vector)) for digest, vector in random_vectors(2)]))
    path = tmp_path_factory.mktemp("any") / "v.db"
    with pytest.raises(MemsyncError):
        imported(path, good[:cut] + content)


def test_large_import_takes_little_memory(tmp_path: Path) -> None:
    """60,000 vectors take no more than 60 MB above what 1,000 take."""
    code = """
import sys, io, json, struct, hashlib, resource, numpy as np
from msgspec.structs import asdict
from pathlib import Path
from memsync.embed.cache.vector_files import import_vectors
from memsync.model.query import EmbeddingSpace
space = EmbeddingSpace("fake", "m", "1", 384)
folder, blocks = Path(sys.argv[1]), int(sys.argv[2])
header = json.dumps({"spaces": [{"name": space.name, "description": asdict(space)}]}).encode()
unit = np.eye(384, dtype="<f2")
with open(f"{folder}.bin", "wb") as file:
    digest = hashlib.sha256()
    def write(content):
        file.write(content); digest.update(content)
    write(b"memsync vectors 1\\n" + header + b"\\n")
    for number in range(blocks):
        write(struct.pack("<I", 1000))
        for one in range(1000):
            write(hashlib.sha256(f"{number} {one}".encode()).digest() + unit[one % 384].tobytes())
    write(struct.pack("<I", 0))
    file.write(digest.digest())
with open(f"{folder}.bin", "rb") as file:
    done = import_vectors(folder / "v.db", 10**9, file, 0, lambda *given: None)
print(done[0].added, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    peaks = []
    for name, blocks in (("small", 1), ("large", 60)):
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / name), str(blocks)], capture_output=True, text=True, check=True
        )
        added, peak = done.stdout.split()
        assert int(added) == blocks * 1_000
        peaks.append(int(peak) * (1 if sys.platform == "darwin" else 1024))
    assert peaks[1] - peaks[0] < 60_000_000


# ---------------------------------------------------------------------------------------- the database


def test_locked_and_damaged_caches_are_errors_that_say_what_to_do(
    here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unlike a sync, these commands are about the cache itself."""
    content = exported(here)
    monkeypatch.setattr(vector_files, "BUSY_MS", 10)
    with closing(apsw.Connection(str(here))) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(IndexBusy):
            imported(here, content)
        assert exported(here) == content
        holder.execute("ROLLBACK")
    filled(there, (SPACE, random_vectors(1)))
    there.write_bytes(b"no database" * 1_000)
    with pytest.raises(IndexDamaged, match="damaged"):
        imported(there, content)
    with pytest.raises(IndexDamaged, match="damaged"):
        exported(there)


def test_broken_rows_are_not_exported(here: Path, there: Path) -> None:
    """What does not fit its checksum stays where it is."""
    with closing(apsw.Connection(str(here))) as connection:
        connection.execute("UPDATE vector SET checksum = checksum + 1 WHERE id IN (1, 2, 3)")
    imported(there, exported(here))
    assert len(held(there)[SPACE.name]) == 2_497


# ------------------------------------------------------------------------------------------ the command


@pytest.fixture
def synced(cli: Cli, root: Path) -> Cli:
    """Sync three notes, and check what the cache has of them."""
    for number in range(3):
        (root / f"n{number}.md").write_text(f"The heron of note {number} nests in the alder.\n")
    assert cli("sync").returncode == 0
    return cli


@pytest.fixture
def other_machine(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a machine that has another state folder."""
    return {"XDG_STATE_HOME": str(tmp_path / "other-state")}


def test_vectors_go_to_another_machine_and_are_not_computed_there(
    synced: Cli, other_machine: dict[str, str], tmp_path: Path
) -> None:
    """The file is for its owner's eyes only; a sync there reuses all of it."""
    file = tmp_path / "v.bin"
    done = synced("vectors", "export", str(file))
    assert (done.returncode, done.stdout) == (0, f"{space_name(synced)}: 3 vectors written\n")
    assert file.stat().st_mode & 0o777 == 0o600
    done = synced("vectors", "import", str(file), "--json", environ=other_machine)
    assert json.loads(done.stdout)["spaces"] == [{"name": space_name(synced), "vectors": 3, "added": 3}]
    report = json.loads(synced("sync", "--json", environ=other_machine).stdout)
    assert (report["vectors_computed"], report["vectors_reused"]) == (0, 3)


def space_name(cli: Cli) -> str:
    (space,) = json.loads(cli("vectors", "status", "--json").stdout)["spaces"]
    assert space["vectors"] == 3
    return str(space["name"])


def test_status_tells_spaces_size_and_bound(synced: Cli) -> None:
    """For people and as JSON; also where there is no cache, and where it is switched off."""
    found = json.loads(synced("vectors", "status", "--json").stdout)
    assert found["path"] == str(vector_cache_path())
    assert 0 < found["bytes"] < found["most_bytes"] == 512_000_000
    printed = synced("vectors", "status").stdout
    assert "of at most 512 MB" in printed
    assert f"{space_name(synced)}: 3 vectors" in printed
    off = synced("vectors", "status", environ={"MEMSYNC_INDEX_VECTOR_CACHE_MB": "0"}).stdout
    assert "switched off" in off
    empty = synced("vectors", "status", "--json", environ={"XDG_STATE_HOME": "/nowhere/at/all"})
    assert (empty.returncode, json.loads(empty.stdout)["spaces"]) == (0, [])


def test_standard_output_and_input_carry_the_same_file(
    synced: Cli, other_machine: dict[str, str], tmp_path: Path
) -> None:
    """`export - | import -`, with nothing else on standard output."""
    file = tmp_path / "v.bin"
    synced("vectors", "export", str(file))
    command = [sys.executable, "-m", "memsync", "--root", str(synced.root), "vectors"]
    piped = subprocess.run([*command, "export", "-"], capture_output=True, check=True)
    assert piped.stdout == file.read_bytes()
    assert b"3 vectors written" in piped.stderr
    done = subprocess.run(
        [*command, "import", "-"],
        input=piped.stdout,
        capture_output=True,
        env={**os.environ, **other_machine},
        check=True,
    )
    assert b"3 vectors added" in done.stdout
    refused = synced("vectors", "export", "-", "--json")
    assert (refused.returncode, refused.stdout) == (2, "")


def test_export_overwrites_nothing_unless_forced(synced: Cli, tmp_path: Path) -> None:
    """And with --force only a file, in one step."""
    file = tmp_path / "v.bin"
    file.write_text("mine")
    done = synced("vectors", "export", str(file))
    assert (done.returncode, file.read_text()) == (2, "mine")
    assert "--force" in done.stderr
    done = synced("vectors", "export", str(file), "--space", "nosuch", "--force")
    assert (done.returncode, file.read_text()) == (2, "mine")
    assert synced("vectors", "export", "--force", str(file)).returncode == 0
    assert file.read_bytes().startswith(b"memsync vectors 1\n")
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert synced("vectors", "export", "--force", str(pipe)).returncode == 2
    assert synced("vectors", "export", str(tmp_path / "no" / "v.bin")).returncode == 9


def test_failed_export_leaves_no_file(tmp_path: Path) -> None:
    """No file may become larger than some of what is to be written."""
    space = EmbeddingSpace("fake", "wide", "1", 384)
    filled(vector_cache_path(), (space, random_vectors(1_000, space)))
    file = tmp_path / "v.bin"
    code = (
        "import resource, sys; from memsync.cli.main import main\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        f"main(['vectors', 'export', {str(file)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, file.exists()) == (9, False), done.stderr


def test_empty_and_switched_off_caches_are_told(cli: Cli, tmp_path: Path) -> None:
    """Nothing to export, nowhere to import to."""
    done = cli("vectors", "export", str(tmp_path / "v.bin"))
    assert (done.returncode, (tmp_path / "v.bin").exists()) == (2, False)
    assert "memsync sync" in done.stderr
    (tmp_path / "v.bin").write_bytes(b"x")
    done = cli("vectors", "import", str(tmp_path / "v.bin"), environ={"MEMSYNC_INDEX_VECTOR_CACHE_MB": "0"})
    assert (done.returncode, "switched off" in done.stderr) == (2, True)
    assert cli("vectors", "import", str(tmp_path / "nosuch")).returncode == 2


def test_import_that_is_killed_leaves_the_old_cache(synced: Cli) -> None:
    """In its midst, having written much already; the next one can write at once."""
    before = held(vector_cache_path())
    command = [sys.executable, "-m", "memsync", "--root", str(synced.root), "vectors", "import", "-"]
    records = [(digest, half(vector)) for digest, vector in random_vectors(20_000)]
    content = file_of((SPACE, records))
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(content[:-50])
        process.stdin.flush()
        until(lambda: is_writing(vector_cache_path()), "the import holds the lock")
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert held(vector_cache_path()) == before
    assert imported(vector_cache_path(), content) == [Exchanged(SPACE.name, 20_000, 20_000)]


def is_writing(path: Path) -> bool:
    with closing(apsw.Connection(str(path))) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            return True
    return False


def test_import_of_a_fifo_that_ends_early_is_refused(synced: Cli, tmp_path: Path) -> None:
    """What is not a regular file is read as a stream."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = synced.begin("vectors", "import", str(pipe))
    with open(pipe, "wb") as stream:
        stream.write(b"memsync vectors 1\n")
    assert process.wait(120) == 2
