"""The word index: which rows of the index have a word, how often and where.

SQLite's FTS5 keeps such lists itself; here they are rows of table `posting`. Each has the list of one word in one block
of consecutive chunks, as packed numbers that numpy reads without a loop. A note's lists are made without a database, in
the process that parses the note, with FTS5's own tokenizer. So both backends have the same words.

A row of the index is a chunk or, in a group, an item (numbered from 1; 0 for a whole chunk). A posting says that a row
has a word. Its three numbers are little-endian, 4 bytes each: the chunk's id; the item and, shifted by 8 bits, the
weight; the length of the row in words. The weight is twice the sum of bm25's column weights over the places of the
word, so that it is a whole number. A place is one number of 4 bytes: the offset among the words of its column,
the column from bit 29 up, and bit 31 for the first place of a posting.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, cast

import apsw

from memsync.model.vocabulary import Form

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memsync.index.rows import ChunkRows

    Numbers = NDArray[np.uint32]

BLOCK_BITS = 8
"""A block has 2^8 chunk ids: an edit reads the lists of its block again, and a search reads one row a block."""
TOKENIZER = ("porter", ("unicode61", "remove_diacritics", "2"))
COLUMN_WEIGHTS = (2, 2, 1, 2)
"""Twice bm25's weights of the columns body, heading and date, context, cjk."""
MAX_WORD_BYTES = 32_768
"""FTS5 cuts longer words off."""
MAX_KEY_BYTES = 256
"""A longer word is stored under a hash, because rows of a B-tree are small; table `long_word` has the word itself."""
_HASH_MARK = "\x01"
"""Begins the key of a long word; the tokenizer leaves no control characters in words."""
_FIRST = 1 << 31
_COLUMN_SHIFT = 29
_OFFSET_MASK = (1 << _COLUMN_SHIFT) - 1


class NoteWords(NamedTuple):
    """The words of a note's chunks.

    `words` are sorted by their first use; `word_of` has the number of its word for each posting, sorted by word and
    then by row. `postings` has the shape (postings, 3), with the chunk's position in the note instead of its id.
    `place_ends` says where the places of each posting end in `places`. `lengths` has the words of each row by column,
    shape (rows, 4).
    """

    words: Sequence[str]
    word_of: Numbers
    postings: Numbers
    place_ends: Numbers
    places: Numbers
    lengths: Numbers


class _ThreadTokenizer(threading.local):
    """Each thread's own tokenizer, because two threads may not use one connection at once."""

    def __init__(self) -> None:
        name, arguments = TOKENIZER
        self.read = apsw.Connection(":memory:").fts5_tokenizer(name, list(arguments))


_TOKENIZER = _ThreadTokenizer()


@lru_cache(maxsize=2_048)
def words_of(text: str) -> Sequence[str]:
    """Return the words that FTS5 indexes for a text, in order."""
    found = _TOKENIZER.read(
        text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
    )
    return [word if len(word) < MAX_WORD_BYTES // 4 else _cut(word) for word in cast("list[str]", found)]


def _cut(word: str) -> str:
    return word.encode()[:MAX_WORD_BYTES].decode(errors="replace")


def key_of(word: str) -> str:
    """Return what table `posting` has instead of a word: the word itself, or a hash if it is long."""
    if len(word) <= MAX_KEY_BYTES // 4 or len(word.encode()) <= MAX_KEY_BYTES:
        return word
    return _HASH_MARK + hashlib.sha256(word.encode()).hexdigest()


def is_hashed(key: str) -> bool:
    """Tell whether a key is the hash of a long word."""
    return key.startswith(_HASH_MARK)


def note_words(chunks: Sequence[ChunkRows]) -> NoteWords:
    """Return the words of a note's chunks, in a form that needs no loop over words to be stored."""
    numbers: dict[str, int] = {}
    word_ids: list[int] = []
    run_lengths: list[int] = []
    runs: list[tuple[int, int, int]] = []
    lengths: list[tuple[int, ...]] = []
    for position, chunk in enumerate(chunks):
        first_item = 1 if chunk.form == Form.GROUP else 0
        for item, columns in enumerate(chunk.columns, first_item):
            counts = []
            for column, text in enumerate(columns):
                words = words_of(text) if text else ()
                counts.append(len(words))
                if words:
                    word_ids += [numbers.setdefault(word, len(numbers)) for word in words]
                    run_lengths.append(len(words))
                    runs.append((len(lengths), position << 8 | item, column))
            lengths.append(tuple(counts))
    return _packed(list(numbers), word_ids, run_lengths, runs, lengths)


def _packed(
    words: Sequence[str],
    word_ids: Sequence[int],
    run_lengths: Sequence[int],
    runs: Sequence[tuple[int, int, int]],
    lengths: Sequence[tuple[int, ...]],
) -> NoteWords:
    """Return the words in packed form.

    `word_ids` has the number of each word in the order of the text. Each run, of a length in `run_lengths`, is the text
    of one column: (row, chunk's position and item, column).
    """
    import numpy as np

    sizes = np.array(lengths, dtype=np.uint32).reshape(len(lengths), len(COLUMN_WEIGHTS))
    repeats = np.array(run_lengths, dtype=np.int64)
    by_run = np.array(runs, dtype=np.int64).reshape(len(runs), 3)
    starts = np.repeat(np.cumsum(repeats) - repeats, repeats)
    word = np.array(word_ids, dtype=np.int64)
    row, place_of, column = np.repeat(by_run, repeats, axis=0).T
    offset = np.arange(len(word)) - starts
    order = np.argsort(word, kind="stable")  # within a word, the order of the text: by row, column, offset
    word, row, place_of, column, offset = (values[order] for values in (word, row, place_of, column, offset))
    is_first = np.ones(len(word), dtype=bool)
    is_first[1:] = (word[1:] != word[:-1]) | (row[1:] != row[:-1])
    firsts = np.flatnonzero(is_first)
    weights = np.add.reduceat(np.array(COLUMN_WEIGHTS)[column], firsts) if len(firsts) else firsts
    postings = np.empty((len(firsts), 3), dtype=np.uint32)
    postings[:, 0] = place_of[firsts] >> 8
    postings[:, 1] = (weights << 8) | (place_of[firsts] & 255)
    postings[:, 2] = sizes.sum(axis=1)[row[firsts]]
    places = (is_first.astype(np.int64) * _FIRST) | (column << _COLUMN_SHIFT) | offset
    return NoteWords(
        words,
        word[firsts].astype(np.uint32),
        postings,
        np.append(firsts[1:], len(word)).astype(np.uint32) if len(firsts) else firsts.astype(np.uint32),
        places.astype(np.uint32),
        sizes,
    )


Block = dict[str, tuple[list[bytes], list[bytes]]]
"""The lists of the words of one block that were added or are changed, until they are written.

A list is (postings, places), each a list of parts as bytes, in the order of chunk ids.
"""


def add_note(blocks: dict[int, Block], note: NoteWords, chunk_ids: Sequence[int]) -> dict[str, str]:
    """Add a note's words to their blocks; return the long words by their keys.

    `chunk_ids` has the id of the chunk at each position; 0 for a chunk that keeps its rows in the word index.
    """
    import numpy as np

    ids = np.array(chunk_ids, dtype=np.uint32)
    chunk = ids[note.postings[:, 0]]
    starts = np.concatenate([np.zeros(1, np.uint32), note.place_ends[:-1]]) if len(note.place_ends) else note.place_ends
    places, place_counts = note.places, (note.place_ends - starts).astype(np.int64)
    postings, word_of = note.postings.copy(), note.word_of
    postings[:, 0] = chunk
    if not ids.all():
        is_new = chunk != 0
        places = places[np.repeat(is_new, place_counts)]
        postings, word_of, place_counts, chunk = (values[is_new] for values in (postings, word_of, place_counts, chunk))
    if not len(postings):
        return {}
    number = chunk >> BLOCK_BITS
    is_first = np.ones(len(postings), dtype=bool)
    is_first[1:] = (word_of[1:] != word_of[:-1]) | (number[1:] != number[:-1])
    firsts = np.flatnonzero(is_first)
    place_ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(place_counts)])
    bounds = [*firsts.tolist(), len(postings)]
    place_bounds = [*place_ends[firsts].tolist(), int(place_ends[-1])]
    posting_bytes, place_bytes = postings.tobytes(), places.tobytes()
    keys = [key_of(word) for word in note.words]
    words, numbers = word_of[firsts].tolist(), number[firsts].tolist()
    for i, (word, block) in enumerate(zip(words, numbers, strict=True)):
        known = blocks.setdefault(block, {}).setdefault(keys[word], ([], []))
        known[0].append(posting_bytes[12 * bounds[i] : 12 * bounds[i + 1]])
        known[1].append(place_bytes[4 * place_bounds[i] : 4 * place_bounds[i + 1]])
    return {key: word for key, word in zip(keys, note.words, strict=True) if key is not word}


def read_postings(lists: Sequence[bytes]) -> Numbers:
    """Return the postings of several lists, one after the other; shape (postings, 3)."""
    import numpy as np

    return np.frombuffer(b"".join(lists), dtype="<u4").reshape(-1, 3)


def read_places(lists: Sequence[bytes]) -> tuple[Numbers, Numbers, Numbers]:
    """Return (number of the posting, column, offset) of each place of several lists."""
    import numpy as np

    places = np.frombuffer(b"".join(lists), dtype="<u4")
    posting = np.cumsum(places >> np.uint32(31), dtype=np.uint32) - np.uint32(1)
    column, offset = (places >> np.uint32(_COLUMN_SHIFT)) & np.uint32(3), places & np.uint32(_OFFSET_MASK)
    return posting, column, offset


def without_chunks(
    lists: Mapping[str, tuple[bytes, bytes]], chunk_ids: Sequence[int]
) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield (key, postings, places) of each list of a block that changes if these chunks leave it.

    The lists of words that only these chunks have come out empty.
    """
    import numpy as np

    gone = np.array(chunk_ids, dtype=np.uint32)
    for key, (postings, places) in lists.items():
        rows = read_postings([postings])
        stays = ~np.isin(rows[:, 0], gone)
        if not stays.all():
            posting, _, _ = read_places([places])
            kept = np.frombuffer(places, dtype="<u4")[stays[posting]]
            yield key, rows[stays].tobytes(), kept.tobytes()
