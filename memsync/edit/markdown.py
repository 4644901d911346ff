"""Turns arbitrary text into Markdown for a note: a list item, a message, or attributes.

The code that indexes notes must parse the result as exactly one item or one message. Each text has several forms: the
first one that parses back correctly is used, and the last one is correct for every text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from memsync.edit.addition import Addition
from memsync.edit.note_end import closing_lines
from memsync.errors import UsageError
from memsync.model.note import Block
from memsync.model.text import printable, quoted, whole_characters
from memsync.notes.attributes import ESCAPES, MAX_BLOCK_CHARS
from memsync.notes.blocks import BlockTree, Heading, parse_blocks
from memsync.notes.dates import parse_moment
from memsync.notes.frontmatter import closes_head
from memsync.notes.transcript import MESSAGE_LEVEL, body_text, find_headings, read_message_heading

WRITING_ATTRIBUTES = ("demoted", "closed", "lead", "trail", "eol", "written")
"""Attributes that only describe how the text of a message is written."""
MAX_ITEM_CHARS = 100_000
"""A longer entry would make the note too large to be parsed in full."""
_MAX_MARGIN_CHARS = 200
"""Maximum length of the margins of a text (the empty space around it) that a message's heading stores."""
_DEEPEST_LEVEL = 6

_BLOCK_START = re.compile(r"[ \t]*(?:[-+*>#|=]|\d{1,9}[.)][ \t]|`{3}|~{3}|<|\[[^\]]*\]:|$)|[ ]{4}|\t")
_MAY_HOLD_MARKUP = re.compile(r"[\[(*_\d]|.*\{")
"""Matches a line that may contain more than text: a time or a checkbox at its beginning, attributes at its end."""
_UNDERLINE = re.compile(r"( {0,3})(\\*(?:=+|-+)[ \t]*)")
_ESCAPED_UNDERLINE = re.compile(r"( {0,3})\\(\\*(?:=+|-+)[ \t]*)")
_UNQUOTED_VALUE = re.compile(r"""[^\s"{}\\\x00-\x1f\x7f]+""")
_CLASS_NAMES = re.compile(r"""[^\s{}.#="]+(?: [^\s{}.#="]+)*""")
_ATTRIBUTE_NAME = re.compile(r"[A-Za-z_:][\w:.-]*")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
"""Control characters. A note with many of them counts as binary, so that all its messages would be lost."""
_CONTROL_OR_BACKSLASH = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\\]")
_ESCAPE_SEQUENCE = re.compile(r"\\(?:\\|u([0-9a-f]{4}))")
_TIME = re.compile(r"[0-9W:.,Z+-]+(?:[T ][0-9:.,Z+-]+)?")
_CONFLICT_MARK = re.compile(r"(?:<{7}|>{7})(?: |$)")
_FENCE = re.compile(r"`{3,}")
_DOUBTFUL_LINE = re.compile(r"\n[ \t]*(?:\#{1,6}(?:[ \t]|$)|<|`{3}|~{3}|>{7}|(?:=+|-+|\.{3})[ \t]*$)", re.MULTILINE)
"""Matches lines that may be more than paragraphs, lists and quotes: headings, underlines, fences, HTML blocks.

A text without such lines is always one message and leaves no block open. A text with such lines is written and parsed
back, unless all of them match `_FENCE_OR_HEADING`. The pattern begins with a line end, because that makes the search
several times faster; so put a line end before the text.
"""
_FENCE_OR_HEADING = re.compile(
    r"""^(?:
        (?P<fence>```[\w+#.-]*\n(?:(?![ \t]*(?:`{3}|~{3}|<{7}|>{7}|(?:---|\.{3})[ \t]*$)).*\n)*?```$)
      | (?P<hashes>\#{1,6})(?=[ \t]|$)
    )""",
    re.MULTILINE | re.VERBOSE,
)
"""Matches a whole fence without another one inside, and a heading. Neither is indented, so both are certainly what they
look like and not part of a list or a quote. Most long model answers have no other doubtful lines."""


def cleaned(text: str) -> str:
    """Return text with LF, no empty lines around it and U+FFFD for control characters. Raises UsageError if empty."""
    lines = _CONTROL.sub("�", text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise _no_text()
    return whole_characters("\n".join(lines))


def one_line(text: str) -> str:
    """Return text as one line with single spaces, each control character replaced by U+FFFD."""
    return whole_characters(_CONTROL.sub("�", " ".join(text.split())))


def as_it_was(text: str) -> Addition:
    """Return lost text of a note as an addition that restores it; closes blocks that the text leaves open."""
    return Addition("\n".join(filter(None, (text, closing_lines(text.split("\n"))))))


# ------------------------------------------------------------------------------------------------- items


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
    block = attribute_block(attributes or {})
    if len(lines) == 1 and not (_BLOCK_START.match(lines[0].strip()) or _MAY_HOLD_MARKUP.match(lines[0].strip())):
        return Addition(_item_text(time, lines[0].strip(), hashtags, block, []))
    expected = {name: whole_characters(value) for name, value in (attributes or {}).items()}
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
    quoted = _as_quote(lines)
    if time or has_suffix:
        yield "", ["", *quoted]
    else:  # an empty line right after the list marker would end the item
        yield quoted[0], quoted[1:]


def _begins_with_words(first: str, rest: Sequence[str]) -> bool:
    """Tell whether lines begin with a paragraph: a time can precede it, and tags can follow its first line."""
    if rest and _UNDERLINE.fullmatch(rest[0]):
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


def _entries(blocks: Sequence[Heading | Block]) -> Iterator[Block]:
    """Yield every list item among blocks, including nested ones."""
    for block in blocks:
        if isinstance(block, Block):
            if block.entry:
                yield block
            yield from _entries(block.children)


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
        and tree.attributes.keys() <= {1}
        and not any(entry.time or entry.attributes for entry in _entries(item.children))
    )


# ---------------------------------------------------------------------------------------------- messages


def message(role: str, text: str, time: str, attributes: Mapping[str, str]) -> Addition:
    """Return text as a message of a thread, like `exact_message`. Also raises UsageError if the text is empty."""
    if not text.strip():
        raise _no_text()
    return exact_message(role, text, time, attributes)


def exact_message(role: str, text: str, time: str, attributes: Mapping[str, str]) -> Addition:
    """Return any text as a message: a level-2 heading with the role, and the text below it.

    `text_of_message` restores the text exactly: the heading's attributes record every change. Only lone surrogates are
    lost, which no file can store. Raises UsageError for a role, a time or attributes that a heading cannot hold.
    """
    _check_heading(role, time, attributes)
    heading = f"## {role} @ {time}" if time else f"## {role}"
    text, changes = _storable(whole_characters(text))
    margins = _margins_of(text)
    unparsed = _form_without_parsing(text, margins)
    if unparsed is not None:
        return Addition(_heading_and_body(heading, {**attributes, **changes, **unparsed[0]}, unparsed[1]))
    *forms, last = _message_forms(text, margins)
    safe = _message_text(heading, attributes, changes, last)
    for form in forms:
        written = _message_text(heading, attributes, changes, form)
        lines = written.split("\n")
        if not any(map(_CONFLICT_MARK.match, lines)) and _is_one_message(lines) and _original_of(form) == text:
            return Addition(written, guarded=safe if any(map(closes_head, lines)) else "")
    return Addition(safe)


_Form = tuple[Mapping[str, str], Sequence[str]]
"""One way to write a text: the attributes that say how it is written, and the lines below the heading."""


def _form_without_parsing(text: str, margins: Mapping[str, str]) -> tuple[Mapping[str, str], str] | None:
    """Return a form (its lines joined) that is certainly one message, without parsing it; None if there is none."""
    if sum(map(len, margins.values())) > _MAX_MARGIN_CHARS:
        return None
    inner = _inside(text, margins)
    if not _DOUBTFUL_LINE.search(f"\n{inner}"):
        return margins, inner
    levels = [len(match["hashes"]) for match in _FENCE_OR_HEADING.finditer(inner) if match["hashes"]]
    if _DOUBTFUL_LINE.search("\n" + _FENCE_OR_HEADING.sub("", inner)):
        return None
    shift = max(0, MESSAGE_LEVEL + 1 - min(levels, default=_DEEPEST_LEVEL))
    if not shift:
        return margins, inner
    if max(levels) + shift > _DEEPEST_LEVEL or any(map(_ESCAPED_UNDERLINE.fullmatch, inner.split("\n"))):
        return None
    deeper = "#" * shift
    lower = _FENCE_OR_HEADING.sub(lambda match: deeper + match[0] if match["hashes"] else match[0], inner)
    return {"demoted": str(shift), **margins}, lower


def _message_forms(text: str, margins: Mapping[str, str]) -> Iterator[_Form]:
    """Yield the forms of a text, plainest first; the last one is safe for every text.

    They are: unchanged; with its headings below the message's own level; in a fence longer than any inside; quoted.
    """
    lines = text.split("\n")
    if sum(map(len, margins.values())) <= _MAX_MARGIN_CHARS:
        inner = _inside(text, margins).split("\n")
        yield margins, inner
        demoted = _demoted(inner)
        if demoted is not None:
            yield {"demoted": str(demoted[0]), **margins}, demoted[1]
    fence = "`" * max(3, 1 + max(map(len, _FENCE.findall(text)), default=0))
    yield {"written": "fenced"}, [fence, *lines, fence]
    yield {"written": "quoted"}, _as_quote(lines)


def _message_text(heading: str, attributes: Mapping[str, str], changes: Mapping[str, str], form: _Form) -> str:
    """Return a message in a form; `changes` are the attributes from `_storable`."""
    of_form, lines = form
    written = " ".join(filter(None, (of_form.get("written", ""), changes.get("written", ""))))
    all_changes = {**changes, **of_form, **({"written": written} if written else {})}
    return _heading_and_body(heading, {**attributes, **all_changes}, "\n".join(lines))


def _heading_and_body(heading: str, attributes: Mapping[str, str], body: str) -> str:
    block = attribute_block(attributes) if attributes else ""
    return f"{heading} {block}\n\n{body}" if block else f"{heading}\n\n{body}"


def _is_one_message(lines: Sequence[str]) -> bool:
    """Tell whether lines are one message that leaves no block open, both for the parser and read line by line."""
    both = [*lines, "", "## end"]
    starts = [1, len(both)]
    if [section.start_line for section, _ in find_headings(both, 1)] != starts:
        return False
    tree = parse_blocks(both)
    parts = tree.parts if tree else ()
    return [part.start_line for part in parts if isinstance(part, Heading) and part.level <= MESSAGE_LEVEL] == starts


def text_of_message(body: str, attributes: Mapping[str, str]) -> str:
    """Return the original text of a message that `message` or `exact_message` wrote, from its body."""
    text = _original_of((attributes, body.split("\n")))
    if "escaped" in attributes.get("written", "").split():
        text = _ESCAPE_SEQUENCE.sub(lambda match: chr(int(match[1], 16)) if match[1] else "\\", text)
    return text.replace("\n", "\r\n") if attributes.get("eol") == "crlf" else text


def _original_of(form: _Form) -> str:
    """Return the text that was written in a form."""
    attributes, lines = form
    written = attributes.get("written", "").split()
    lines = body_text(lines).split("\n")
    if "fenced" in written and len(lines) > 1 and lines[0] == lines[-1] and _FENCE.fullmatch(lines[0]):
        return "\n".join(lines[1:-1])
    if "quoted" in written:
        return "\n".join(line[2:] if line.startswith("> ") else line.removeprefix(">") for line in lines)
    if attributes.get("closed") == lines[-1]:  # earlier versions added such a line to close an open block
        lines.pop()
    if attributes.get("demoted") in ("0", "1", "2"):
        lines = _promoted(lines, int(attributes["demoted"]))
    return attributes.get("lead", "") + "\n".join(lines) + attributes.get("trail", "")


def _storable(text: str) -> tuple[str, dict[str, str]]:
    """Return text with LF line ends and without control characters, and the attributes that restore it."""
    changes = {}
    if "\r" in text and text.count("\r\n") == text.count("\r") == text.count("\n"):
        text, changes["eol"] = text.replace("\r\n", "\n"), "crlf"
    if _CONTROL.search(text):
        text = _CONTROL_OR_BACKSLASH.sub(lambda match: "\\\\" if match[0] == "\\" else _unicode_escape(match), text)
        changes["written"] = "escaped"
    return text, changes


def _margins_of(text: str) -> dict[str, str]:
    """Return the empty space around a text as attributes, because a note does not preserve it."""
    if text[:1] != "\n" and text[-1:] and not text[-1].isspace():
        return {}
    inner = text.lstrip("\n")
    lines = inner.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    margins = {"lead": text[: len(text) - len(inner)], "trail": inner[len("\n".join(lines)) :]}
    return {name: space for name, space in margins.items() if space}


def _inside(text: str, margins: Mapping[str, str]) -> str:
    """Return a text without its margins."""
    return text[len(margins.get("lead", "")) : len(text) - len(margins.get("trail", ""))] if margins else text


def _as_quote(lines: Sequence[str]) -> list[str]:
    return [f"> {line}" if line else ">" for line in lines]


def _demoted(lines: Sequence[str]) -> tuple[int, list[str]] | None:
    """Return (shift, lines) with the headings moved below a message's own level; None if none is too high.

    A backslash before an underline turns the line above it from a heading into text.
    """
    headings = _headings(lines)
    levels = [heading.level for heading in headings if _is_hash_heading(lines, heading)]
    if not headings or min(heading.level for heading in headings) > MESSAGE_LEVEL:
        return None
    shift = max(0, MESSAGE_LEVEL + 1 - min(levels, default=_DEEPEST_LEVEL))
    changed = list(lines)
    for heading in headings:
        if _is_hash_heading(lines, heading):
            line = changed[heading.start_line - 1]
            changed[heading.start_line - 1] = line.replace("#", "#" * (shift + 1), 1)
        else:
            changed[heading.end_line - 1] = _UNDERLINE.sub(r"\1\\\2", changed[heading.end_line - 1], count=1)
    return shift, changed


def _promoted(lines: Sequence[str], shift: int) -> list[str]:
    """Undo `_demoted`."""
    changed = list(lines)
    for heading in _headings(lines):
        line = lines[heading.start_line - 1]
        if _is_hash_heading(lines, heading) and heading.level > shift:
            changed[heading.start_line - 1] = line.replace("#" * (shift + 1), "#", 1)
    return [f"{match[1]}{match[2]}" if (match := _ESCAPED_UNDERLINE.fullmatch(line)) else line for line in changed]


def _headings(lines: Sequence[str]) -> list[Heading]:
    """Return the headings outside of lists, quotes and code."""
    tree = parse_blocks(lines)
    return [part for part in tree.parts if isinstance(part, Heading)] if tree else []


def _is_hash_heading(lines: Sequence[str], heading: Heading) -> bool:
    """Tell whether a heading is written with `#`, not with an underline."""
    return heading.start_line == heading.end_line and lines[heading.start_line - 1].lstrip(" ").startswith("#")


# ------------------------------------------------------------------------------------ headings of messages


def _check_heading(role: str, time: str, attributes: Mapping[str, str]) -> None:
    """Raise UsageError for values that could not be parsed back from a heading."""
    if not is_role(role):
        raise UsageError(
            f"{quoted(role)} is not a role", hint="Write user, assistant, system, tool, agent:NAME, router or handoff."
        )
    if time and not _is_time(time):
        raise UsageError(f"{quoted(time)} is not a time", hint="Write it as 2026-11-21 10:02, or with a zone.")
    reserved = next((name for name in WRITING_ATTRIBUTES if name in attributes), None)
    if reserved is not None:
        raise UsageError(
            f"memsync reserves the attribute {reserved}",
            hint=f"Do not use these names: {', '.join(WRITING_ATTRIBUTES)}.",
        )


@lru_cache(maxsize=256)
def is_role(role: str) -> bool:
    """Tell whether a message heading with this role parses back to the same role."""
    if not role.isprintable() or printable(role) != role or read_message_heading(role) != (role, ""):
        return False
    line = f"## {role}"
    headings = _headings([line])
    sections = find_headings([line], 1)
    return [section.role for section, _ in sections] == [role] == [heading.text for heading in headings]


@lru_cache(maxsize=256)
def _is_time(time: str) -> bool:
    return _TIME.fullmatch(time) is not None and parse_moment(time) is not None


def attribute_block(attributes: Mapping[str, str]) -> str:
    """Return `{key=value key="two words"}`; empty without attributes. Raises UsageError for an invalid or long one."""
    parts = []
    for key, given in attributes.items():
        value = given if given.isascii() else whole_characters(given)
        if key == "class" and _CLASS_NAMES.fullmatch(value):
            parts += [f".{name}" for name in value.split(" ")]
        elif _ATTRIBUTE_NAME.fullmatch(key):
            parts.append(f"{key}={value}" if _UNQUOTED_VALUE.fullmatch(value) else f"{key}={_quoted_value(value)}")
        else:
            raise UsageError(f"{key!r} cannot name an attribute", hint="Use letters, digits, _ and -.")
    block = "{" + " ".join(parts) + "}" if parts else ""
    if len(block) > MAX_BLOCK_CHARS:
        raise UsageError(f"the attributes are over {MAX_BLOCK_CHARS} characters", hint="Put the rest into the text.")
    return block


def _quoted_value(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    for letter, character in ESCAPES.items():
        escaped = escaped.replace(character, f"\\{letter}")
    return '"' + _CONTROL.sub(_unicode_escape, escaped) + '"'


def _unicode_escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _no_text() -> UsageError:
    return UsageError("there is no text to write", hint="Give it as arguments or on standard input.")
