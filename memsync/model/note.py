"""A parsed file: note, section, block, chunk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct, field

from memsync.model.vocabulary import Form, JsonValue, Kind, NotePath, Origin, Tier, is_remembered


class FileStamp(Struct, frozen=True):
    """The `stat` of a file when it was read, and the SHA-256 of its content.

    `stamped_ns` is the wall clock at that moment. A file whose mtime or ctime is within two seconds of it may have been
    written again in the same clock tick; its stamp proves nothing, so it is read again. `blob` holds git's two object
    ids of the content: SHA-1 (20 bytes), then SHA-256 (32 bytes).
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    digest: bytes
    stamped_ns: int
    blob: bytes = b""

    @property
    def identity(self) -> tuple[int, int, int, int]:
        """The part that `stat` can compare without reading the file."""
        return (self.size, self.mtime_ns, self.ctime_ns, self.inode)

    def is_blob(self, name: str) -> bool:
        """Tell whether git has this hexadecimal name for the content."""
        return name in (self.blob[:20].hex(), self.blob[20:].hex())


class Section(Struct, frozen=True):
    """The text under one heading; lines `start_line`..`end_line` of the file, the heading line included.

    `heading_path` runs from the outermost heading to this one and is empty above the first heading. `level` is the
    level of this heading, 0 above the first. `role` and `time` are set in a message of a thread, `time` also in a
    timed section of a daily log. `is_message` tells that a message begins here; its role may be empty.
    """

    heading_path: tuple[str, ...]
    start_line: int
    end_line: int
    role: str = ""
    time: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    level: int = 0
    is_message: bool = False


class Message(Struct, frozen=True):
    """A message of a thread: a level-2 heading with a role, on `start_line`, and the lines up to the next one.

    `body_line` is the first line below the heading, `end_line` the last line with text; an empty message ends with
    its heading. `time` is ISO 8601, empty if the heading has none.
    """

    role: str
    time: str
    start_line: int
    body_line: int
    end_line: int
    attributes: Mapping[str, str] = field(default_factory=dict)


class Link(Struct, frozen=True):
    """A wiki link (`[[target#anchor|label]]`), a Markdown link or an image, on its line."""

    target: str
    anchor: str
    label: str
    line: int
    wiki: bool


class Tag(Struct, frozen=True):
    """A tag without its `#`. It tags the entry on its line, or the whole note if the line is 0."""

    name: str
    line: int


class Block(Struct, frozen=True):
    """A run of lines that chunking keeps whole if it fits: a paragraph, fence, table row, list item or quote.

    `children` are the smaller blocks to cut it into when it does not fit. `entry` marks a small unit of its own (a
    list item): neighbouring entries are retrieved together, in overlapping windows. `time` is set on a timed entry of
    a daily log.
    """

    start_line: int
    end_line: int
    entry: bool = False
    children: tuple[Block, ...] = ()
    time: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)


def with_children(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield each block, followed by the blocks inside it."""
    for block in blocks:
        yield block
        yield from with_children(block.children)


class Note(Struct, frozen=True):
    """One parsed file.

    `lines` are the file's lines without their ends; `sections` cover every line of the body; `blocks[i]` are the
    blocks of `sections[i]`. `cuts` maps a line to the column at which its attribute braces begin; these are metadata,
    not text. `head_lines` counts the lines of the front matter, fences included; if `head_is_text`, they are searched
    like the body. If `local_only`, its text never leaves this machine: no model on another machine and no shared
    database may get it.
    """

    path: NotePath
    title: str
    kind: Kind
    tier: Tier
    lines: tuple[str, ...]
    sections: tuple[Section, ...]
    blocks: tuple[tuple[Block, ...], ...]
    front_matter: Mapping[str, JsonValue]
    head_lines: int = 0
    head_is_text: bool = False
    cuts: Mapping[int, int] = field(default_factory=dict)
    tags: tuple[Tag, ...] = ()
    links: tuple[Link, ...] = ()
    aliases: tuple[str, ...] = ()
    date: str = ""
    session: str = ""
    importance: float = 0.5
    pinned: bool = False
    archived: bool = False
    warnings: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    local_only: bool = False

    @property
    def is_remembered(self) -> bool:
        """Whether the note records facts, which people search for one by one."""
        return is_remembered(self.kind, self.tier)


class Entry(NamedTuple):
    """The unit that hits are made of: one small list item, or a run of larger blocks that fits one chunk.

    `position` counts the section's entries from 0. `window_count` is the number of windows that contain it, 0 outside
    of conversations. `token_count` is in tokens of the built-in model. `traits` are flags of `Trait`. `tags` are its
    own, its section's and the note's. `time` is the earliest time of its items; `later` has the other times, in order.
    `speaker` is in lower case, and empty outside of conversations.
    """

    start_line: int
    end_line: int
    position: int
    window_count: int
    token_count: int
    traits: int = 0
    time: str = ""
    attributes: Mapping[str, str] = MappingProxyType({})
    tags: Sequence[str] = ()
    later: Sequence[str] = ()
    speaker: str = ""


class Chunk(Struct, frozen=True):
    """The unit of retrieval: a contiguous line span of one section or message.

    `text` is the passage to embed (a heading is not embedded): the span's words without attributes, link targets and
    URLs, and in a log without list markers and clock times. `words` leaves out only the attributes. `entries` cover
    the span; there is exactly one unless `form` is a window or a group. `item_words` are the words of each entry of a
    group. `opening` has the stems of a text's first words, as numbers. `start_column` and `end_column` (from 0, end
    exclusive) are set only for a piece of a line that is too long for a chunk; otherwise both are 0.
    """

    ordinal: int
    section: int
    start_line: int
    end_line: int
    text: str
    words: str
    heading_path: tuple[str, ...] = ()
    role: str = ""
    entries: tuple[Entry, ...] = ()
    start_column: int = 0
    end_column: int = 0
    form: Form = Form.TEXT
    item_words: tuple[str, ...] = ()
    opening: tuple[int, ...] = ()
    local_only: bool = False
    origin: str = Origin.OWNER

    @property
    def indexed_words(self) -> Sequence[str]:
        """The texts for the word index, one row each."""
        return {Form.WINDOW: (), Form.GROUP: self.item_words}.get(self.form, (self.words,))

    @property
    def content_hash(self) -> bytes:
        """SHA-256 of the passage: the key of its vector.

        It is salted for a local-only note: so what is local-only shares no passage with other notes.
        """
        salt = "local-only\0" if self.local_only else ""  # no text of a note has a NUL
        return hashlib.sha256(f"{salt}{self.text}".encode()).digest()
