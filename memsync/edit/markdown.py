"""Turns arbitrary text into Markdown for a note: a list item or a message.

The code that indexes notes must parse the result as exactly one item or one message. Each text has several forms: the
first one that parses back correctly is used, and the last one is correct for every text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from memsync.edit.addition import Addition
from memsync.edit.note_end import closing_lines
from memsync.errors import UsageError
from memsync.model.note import Block, with_children
from memsync.model.text import whole_characters
from memsync.model.vocabulary import Origin, named_origin
from memsync.notes.attributes import CONTROL, attribute_block, cut_attributes
from memsync.notes.blocks import BlockTree, Heading, parse_blocks
from memsync.notes.message_format import UNDERLINE, as_quote, written_message
from memsync.notes.origin import BY
from memsync.ports import WRITES_FOR_AGENT

MAX_ITEM_CHARS = 100_000
"""A longer entry would make the note too large to be parsed in full."""

_BLOCK_START = re.compile(r"[ \t]*(?:[-+*>#|=]|\d{1,9}[.)][ \t]|`{3}|~{3}|<|\[[^\]]*\]:|$)|[ ]{4}|\t")
_MAY_HOLD_MARKUP = re.compile(r"[\[(*_\d]|.*\{")
"""Matches a line that may contain more than text: a time or a checkbox at its beginning, attributes at its end."""


def cleaned(text: str) -> str:
    """Return text with LF, no empty lines around it and U+FFFD for control characters. Raises UsageError if empty."""
    lines = CONTROL.sub("�", text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise UsageError("there is no text to write", hint="Give it as arguments or on standard input.")
    return whole_characters("\n".join(lines))


def one_line(text: str) -> str:
    """Return text as one line with single spaces, each control character replaced by U+FFFD."""
    return whole_characters(CONTROL.sub("�", " ".join(text.split())))


def as_it_was(text: str) -> Addition:
    """Return lost text of a note as an addition that restores it; closes blocks that the text leaves open."""
    return Addition("\n".join(filter(None, (text, closing_lines(text.split("\n"))))))


# ------------------------------------------------------------------------------------------------- items


def heading_line(text: str) -> str:
    """Return text as a heading of level 2; what would be its attributes stays text."""
    at = text.find("{", cut_attributes(text)[0])
    return f"## {text}" if at < 0 else f"## {text[:at]}\\{text[at:]}"


def list_item(
    text: str, *, time: str = "", tags: Sequence[str] = (), attributes: Mapping[str, str] | None = None
) -> Addition:
    """Return text as a list item, with `time` (`10:02`, may be empty) at its beginning.

    One line stays one line if it then parses as one item. If the text begins with a paragraph, its first line follows
    the time and the other lines are indented. Other text begins on its own line, so that its fence, list, table or
    heading keeps its meaning. Raises UsageError for empty or too long text.
    """
    if len(text) > MAX_ITEM_CHARS:
        raise UsageError(
            f"an entry of {len(text)} characters is too long", hint="Make it a note of its own: memsync note new"
        )
    lines = cleaned(text).split("\n")
    hashtags = [f"#{tag}" for tag in tags]
    attributes = {**(attributes or {}), **by_agent()}
    block = attribute_block(attributes)
    if len(lines) == 1 and not (_BLOCK_START.match(lines[0].strip()) or _MAY_HOLD_MARKUP.match(lines[0].strip())):
        return Addition(_item_text(time, lines[0].strip(), hashtags, block, []))
    expected = {name: whole_characters(value) for name, value in attributes.items()}
    *forms, last = _item_forms(lines, time, has_suffix=bool(hashtags or block))
    for first, rest in forms:
        as_it_is = _item_text(time, first, hashtags, block, rest).split("\n")
        for written in (as_it_is, _with_backslashes(as_it_is, time, block)):
            if _is_one_item(written, time, expected):
                return Addition("\n".join(written))
    quoted = _item_text(time, last[0], hashtags, block, last[1]).split("\n")
    return Addition("\n".join(_with_backslashes(quoted, time, block)))


def _item_forms(lines: Sequence[str], time: str, *, has_suffix: bool) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each form of a text as (first line, further lines); the last form is safe for every text.

    `has_suffix`: tags or attributes follow the first line.
    """
    closing = closing_lines(lines)
    closed = [*lines, *closing.split("\n")] if closing else list(lines)
    first, rest = closed[0], closed[1:]
    is_one_line = not rest and (time or not has_suffix)  # tags and attributes belong after a paragraph
    if is_one_line or _begins_with_words(first.strip(), rest):
        yield first.strip(), rest
    yield "", ["", *closed] if time or has_suffix else closed
    quoted = as_quote(lines)
    if time or has_suffix:
        yield "", ["", *quoted]
    else:  # an empty line right after the list marker would end the item
        yield quoted[0], quoted[1:]


def _begins_with_words(first: str, rest: Sequence[str]) -> bool:
    """Tell whether lines begin with a paragraph: a time can precede it, and tags can follow its first line."""
    if rest and UNDERLINE.fullmatch(rest[0]):
        return False
    if not _BLOCK_START.match(first):
        return True
    tree = parse_blocks([first, *rest])
    return tree is not None and bool(tree.tokens) and tree.tokens[0].type == "paragraph_open"


def _item_text(time: str, first: str, hashtags: Sequence[str], block: str, rest: Sequence[str]) -> str:
    """Return a list item; `block` holds its attributes, `rest` its lines after the first one."""
    start = " ".join(filter(None, ("-", time, first, *hashtags, block)))
    return "\n".join([start, *(f"  {line}" if line.strip() else "" for line in rest)])


def _with_backslashes(lines: list[str], time: str, block: str) -> list[str]:
    """Return an item's lines with a backslash before text that would wrongly parse as attributes or times."""
    tree = _parsed_item(lines)
    if tree is None:
        return lines
    changed = list(lines)
    for line, column in tree.cuts.items():
        if line > 1 or not block:
            at = changed[line - 1].index("{", column)
            changed[line - 1] = f"{changed[line - 1][:at]}\\{changed[line - 1][at:]}"
    for line in {entry.start_line for entry in _entries(tree.parts[:-1]) if entry.time}:
        if line > 1 or not time:  # an entry's start_line may be that of its parent, which may be just a list marker
            of_time = next(number for number in range(line - 1, len(changed)) if ":" in changed[number])
            changed[of_time] = changed[of_time].replace(":", "\\:", 1)
    return changed


def _entries(parts: Sequence[Heading | Block]) -> Iterator[Block]:
    """Yield every list item among the parts of a text, including nested ones."""
    blocks = (part for part in parts if isinstance(part, Block))
    return (block for block in with_children(blocks) if block.entry)


def _parsed_item(lines: Sequence[str]) -> BlockTree | None:
    return parse_blocks([*lines, "- end"])


def _is_one_item(lines: Sequence[str], time: str, attributes: Mapping[str, str]) -> bool:
    """Tell whether lines parse as exactly one list item with this time and these attributes, and no others inside."""
    tree = _parsed_item(lines)
    if tree is None or len(tree.parts) != 2:
        return False
    item, end = tree.parts
    return (
        isinstance(item, Block)
        and isinstance(end, Block)
        and item.entry
        and (item.start_line, end.start_line) == (1, len(lines) + 1)
        and item.time == time
        and item.attributes == attributes
        and tree.cuts.keys() <= {1}
        and not any(entry.time or entry.attributes for entry in _entries(item.children))
    )


# ---------------------------------------------------------------------------------------------- messages


def by_agent() -> dict[str, str]:
    """Return the attribute that marks what an agent writes; nothing if the owner writes."""
    given = WRITES_FOR_AGENT.get()  # as the program calls itself: `owner`, perhaps
    if not given:
        return {}
    origin = named_origin(f"{Origin.AGENT}:{given}")
    name = origin.removeprefix(f"{Origin.AGENT}:")
    return {BY: origin if name in tuple(Origin) else name}


def message(role: str, text: str, time: str, attributes: Mapping[str, str]) -> Addition:
    """Return text as a message of a thread, like `exact_message`, that also says which agent writes it."""
    return exact_message(role, text, time, {**attributes, **by_agent()})


def exact_message(role: str, text: str, time: str, attributes: Mapping[str, str]) -> Addition:
    """Return any text as a message, see `written_message`."""
    return Addition(*written_message(role, text, time, attributes))
