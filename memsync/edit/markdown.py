"""Text that somebody gives -> Markdown that stands for it in a note: a list item, a message, attributes.

Whatever the text is, what is made of it is read back, by the same code that indexes notes, as one item or one message.
A text that would be read as anything else is written in another form. The first form that is read back right is used;
the last form is right for every text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from memsync.edit.addition import Addition, closing_of
from memsync.errors import UsageError
from memsync.model.note import Block
from memsync.model.text import printable
from memsync.notes.attributes import ESCAPES, MAX_BLOCK_CHARS
from memsync.notes.blocks import BlockTree, Heading, parse_blocks, thread_parser
from memsync.notes.dates import parse_moment
from memsync.notes.frontmatter import closes_head
from memsync.notes.transcript import MESSAGE_LEVEL, body_text, find_headings, read_message_heading

WRITING_ATTRIBUTES = ("demoted", "closed", "lead", "trail", "eol", "written")
"""Those that only say how a message's text is written."""
MAX_ITEM_CHARS = 100_000
"""A longer entry would make its note one that is too large to be understood."""
_MAX_END_CHARS = 200
"""Of the empty space around a text that a message's heading keeps."""
_MAX_LEVEL = 6

_BLOCK_START = re.compile(r"[ \t]*(?:[-+*>#|=]|\d{1,9}[.)][ \t]|`{3}|~{3}|<|\[[^\]]*\]:|$)|[ ]{4}|\t")
_MAY_SAY_MORE = re.compile(r"[\[(*_\d]|.*\{")
"""A line that may hold more than text: a time or a box at its beginning, attributes at its end."""
_UNDERLINE = re.compile(r"( {0,3})(\\*(?:=+|-+)[ \t]*)")
_ESCAPED_UNDERLINE = re.compile(r"( {0,3})\\(\\*(?:=+|-+)[ \t]*)")
_BARE = re.compile(r"""[^\s"{}\\\x00-\x1f\x7f]+""")
_CLASSES = re.compile(r"""[^\s{}.#="]+(?: [^\s{}.#="]+)*""")
_NAME = re.compile(r"[A-Za-z_:][\w:.-]*")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
"""What no text file should hold: a note with many of them is taken for binary, and its other messages with it."""
_ESCAPABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\\]")
_ESCAPE = re.compile(r"\\(?:\\|u([0-9a-f]{4}))")
_TIME = re.compile(r"[0-9W:.,Z+-]+(?:[T ][0-9:.,Z+-]+)?")
_CONFLICT = re.compile(r"(?:<{7}|>{7})(?: |$)")
_FENCE = re.compile(r"`{3,}")
_DOUBTFUL = re.compile(r"\n[ \t]*(?:\#{1,6}(?:[ \t]|$)|<|`{3}|~{3}|>{7}|(?:=+|-+|\.{3})[ \t]*$)", re.MULTILINE)
"""Lines that may be more than paragraphs, lists and quotations below a message's heading.

A text without any is one message, and leaves nothing open: a heading, an underline, a fence and an HTML block begin
with one of these signs. A text with one is written and read back, unless every such line is one of `_EVIDENT`.
Searched in a text behind a line end: from one line end to the next is several times as fast as from each character.
"""
_EVIDENT = re.compile(
    r"""^(?:
        (?P<fence>```[\w+#.-]*\n(?:(?![ \t]*(?:`{3}|~{3}|<{7}|>{7}|(?:---|\.{3})[ \t]*$)).*\n)*?```$)
      | (?P<marks>\#{1,6})(?=[ \t]|$)
    )""",
    re.MULTILINE | re.VERBOSE,
)
"""A whole fence without another one in it, and a heading, both without any indentation: no list and no quotation holds
them, so they are what they look like. Most long answers of models have no other doubtful lines."""


def cleaned(text: str) -> str:
    """Return text with LF as its line end, without control characters, and without empty lines around it.

    Raises UsageError when nothing is left.
    """
    lines = _CONTROL.sub("�", text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise _no_text()
    return whole_characters("\n".join(lines))


def one_line(text: str) -> str:
    """Return text on one line, as a heading, a title or a setting has it: no control characters, single spaces."""
    return whole_characters(_CONTROL.sub("�", " ".join(text.split())))


def whole_characters(text: str) -> str:
    """Return text in which each half of a character, which no file can hold, is a replacement character."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def as_it_was(text: str) -> Addition:
    """Return what a note once held, to be put back; what it leaves open is closed."""
    return Addition("\n".join(filter(None, (text, closing_of(text.split("\n"))))))


# ------------------------------------------------------------------------------------------------- items


def list_item(
    text: str, *, time: str = "", tags: Sequence[str] = (), attributes: Mapping[str, str] | None = None
) -> Addition:
    """Return text as a list item, dated to the minute where `time` (`10:02`) says so.

    One line stays one line if the parser then reads one item. Several lines that begin with a paragraph follow the
    time, those after the first indented. Other text begins on a line of its own, so that its fence, list, table or
    heading is what it was. Raises UsageError for text that is no entry.
    """
    if len(text) > MAX_ITEM_CHARS:
        raise UsageError(
            f"an entry of {len(text)} characters is too long", hint="Make it a note of its own: memsync note new"
        )
    lines = cleaned(text).split("\n")
    marks = [f"#{tag}" for tag in tags]
    block = attribute_block(attributes or {})
    if len(lines) == 1 and not (_BLOCK_START.match(lines[0].strip()) or _MAY_SAY_MORE.match(lines[0].strip())):
        return Addition(_item(time, lines[0].strip(), marks, block, []))
    wanted = {name: whole_characters(value) for name, value in (attributes or {}).items()}
    *forms, last = _item_forms(lines, time, has_marks=bool(marks or block))
    for first, rest in forms:
        as_it_is = _item(time, first, marks, block, rest).split("\n")
        for written in (as_it_is, _plain_words(as_it_is, time, block)):
            if _is_one_item(written, time, wanted):
                return Addition("\n".join(written))
    quoted = _item(time, last[0], marks, block, last[1]).split("\n")
    return Addition("\n".join(_plain_words(quoted, time, block)))


def _item_forms(lines: Sequence[str], time: str, *, has_marks: bool) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the first line of an item and those below it, in every way that a text can be written; the last is safe."""
    closing = closing_of(lines)
    closed = [*lines, *closing.split("\n")] if closing else list(lines)
    first, rest = closed[0], closed[1:]
    is_one_line = not rest and (time or not has_marks)  # tags and attributes belong after a paragraph
    if is_one_line or _begins_with_words(first.strip(), rest):
        yield first.strip(), rest
    yield "", ["", *closed] if time or has_marks else closed
    quoted = _quoted(lines)
    if time or has_marks:
        yield "", ["", *quoted]
    else:  # an empty line right behind its sign would end the item
        yield quoted[0], quoted[1:]


def _begins_with_words(first: str, rest: Sequence[str]) -> bool:
    """Tell whether lines begin with a paragraph, so that a time may stand before it and tags after its first line."""
    if rest and _UNDERLINE.fullmatch(rest[0]):
        return False
    if not _BLOCK_START.match(first):
        return True
    tree = parse_blocks(thread_parser(), [first, *rest], 1)
    return tree is not None and bool(tree.tokens) and tree.tokens[0].type == "paragraph_open"


def _item(time: str, first: str, marks: Sequence[str], block: str, rest: Sequence[str]) -> str:
    start = " ".join(filter(None, ("-", time, first, *marks, block)))
    return "\n".join([start, *(f"  {line}" if line.strip() else "" for line in rest)])


def _plain_words(lines: list[str], time: str, block: str) -> list[str]:
    """Return an item's lines with a backslash before what would be read as attributes or times, and was not given."""
    tree = _read_item(lines)
    if tree is None:
        return lines
    changed = list(lines)
    for line, column in tree.cuts.items():
        if line > 1 or not block:
            at = changed[line - 1].index("{", column)
            changed[line - 1] = f"{changed[line - 1][:at]}\\{changed[line - 1][at:]}"
    for line in {entry.start_line for entry in _entries(tree.parts[:-1]) if entry.time}:
        if line > 1 or not time:  # a first inner entry counts from its parent's line, which may be a sign alone
            of_time = next(number for number in range(line - 1, len(changed)) if ":" in changed[number])
            changed[of_time] = changed[of_time].replace(":", "\\:", 1)
    return changed


def _entries(blocks: Sequence[Heading | Block]) -> Iterator[Block]:
    """Yield every list item among blocks, nested ones too."""
    for block in blocks:
        if isinstance(block, Block):
            if block.entry:
                yield block
            yield from _entries(block.children)


def _read_item(lines: Sequence[str]) -> BlockTree | None:
    return parse_blocks(thread_parser(), [*lines, "- end"], 1)


def _is_one_item(lines: Sequence[str], time: str, attributes: Mapping[str, str]) -> bool:
    """Tell whether lines are read as one list item, and end with it, and only it has a time and attributes: these."""
    tree = _read_item(lines)
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
    """Return text as a message of a thread, as `exact_message` does. Raises UsageError also when there is no text."""
    if not text.strip():
        raise _no_text()
    return exact_message(role, text, time, attributes)


def exact_message(role: str, text: str, time: str, attributes: Mapping[str, str]) -> Addition:
    """Return any text as a message: a level-2 heading that names the role, and below it the text.

    `text_of_message` gives the text back to the last character; what had to be changed stands in the heading. Only
    halves of characters are lost, which no file can hold. Raises UsageError for a role, a time or attributes that no
    heading can hold.
    """
    _check_heading(role, time, attributes)
    heading = f"## {role} @ {time}" if time else f"## {role}"
    text, marks = _holdable(whole_characters(text))
    ends = _ends(text)
    evident = _evident_form(text, ends)
    if evident is not None:
        return Addition(_joined(heading, {**attributes, **marks, **evident[0]}, evident[1]))
    *forms, last = _message_forms(text, ends)
    safe = _marked(heading, attributes, marks, last)
    for form in forms:
        written = _marked(heading, attributes, marks, form)
        lines = written.split("\n")
        if not any(map(_CONFLICT.match, lines)) and _is_one_message(lines) and _text_of(form) == text:
            return Addition(written, guarded=safe if any(map(closes_head, lines)) else "")
    return Addition(safe)


_Form = tuple[Mapping[str, str], Sequence[str]]
"""One way to write a text: what the heading says of it, and the lines below the heading."""


def _evident_form(text: str, ends: Mapping[str, str]) -> tuple[Mapping[str, str], str] | None:
    """Return what the heading says of a text and the text as it is written, where no parser is needed to see it."""
    if sum(map(len, ends.values())) > _MAX_END_CHARS:
        return None
    inner = _without(text, ends)
    if not _DOUBTFUL.search(f"\n{inner}"):
        return ends, inner
    levels = [len(found["marks"]) for found in _EVIDENT.finditer(inner) if found["marks"]]
    if _DOUBTFUL.search("\n" + _EVIDENT.sub("", inner)):
        return None
    shift = max(0, MESSAGE_LEVEL + 1 - min(levels, default=_MAX_LEVEL))
    if not shift:
        return ends, inner
    if max(levels) + shift > _MAX_LEVEL or any(map(_ESCAPED_UNDERLINE.fullmatch, inner.split("\n"))):
        return None
    deeper = "#" * shift
    lower = _EVIDENT.sub(lambda found: deeper + found[0] if found["marks"] else found[0], inner)
    return {"demoted": str(shift), **ends}, lower


def _message_forms(text: str, ends: Mapping[str, str]) -> Iterator[_Form]:
    """Yield a text in every way that it can be written, the plainest first; the last is safe for every text.

    As it is; with its headings below the message's own; in a fence that is longer than any in it; as a quotation.
    """
    lines = text.split("\n")
    if sum(map(len, ends.values())) <= _MAX_END_CHARS:
        inner = _without(text, ends).split("\n")
        yield ends, inner
        demoted = _demoted(inner)
        if demoted is not None:
            yield {"demoted": str(demoted[0]), **ends}, demoted[1]
    fence = "`" * max(3, 1 + max(map(len, _FENCE.findall(text)), default=0))
    yield {"written": "fenced"}, [fence, *lines, fence]
    yield {"written": "quoted"}, _quoted(lines)


def _marked(heading: str, attributes: Mapping[str, str], marks: Mapping[str, str], form: _Form) -> str:
    of_form, lines = form
    written = " ".join(filter(None, (of_form.get("written", ""), marks.get("written", ""))))
    all_marks = {**marks, **of_form, **({"written": written} if written else {})}
    return _joined(heading, {**attributes, **all_marks}, "\n".join(lines))


def _joined(heading: str, attributes: Mapping[str, str], body: str) -> str:
    block = attribute_block(attributes) if attributes else ""
    return f"{heading} {block}\n\n{body}" if block else f"{heading}\n\n{body}"


def _is_one_message(lines: Sequence[str]) -> bool:
    """Tell whether lines are one message, and the next one will be another, in both ways in which threads are read."""
    both = [*lines, "", "## end"]
    wanted = [1, len(both)]
    if [section.start_line for section, _ in find_headings(both, 1)] != wanted:
        return False
    tree = parse_blocks(thread_parser(), both, 1)
    parts = tree.parts if tree else ()
    return [part.start_line for part in parts if isinstance(part, Heading) and part.level <= MESSAGE_LEVEL] == wanted


def text_of_message(body: str, attributes: Mapping[str, str]) -> str:
    """Return the text that `message` or `exact_message` was given, from the lines below its heading."""
    text = _text_of((attributes, body.split("\n")))
    if "escaped" in attributes.get("written", "").split():
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else "\\", text)
    return text.replace("\n", "\r\n") if attributes.get("eol") == "crlf" else text


def _text_of(form: _Form) -> str:
    attributes, lines = form
    written = attributes.get("written", "").split()
    lines = body_text(lines).split("\n")
    if "fenced" in written and len(lines) > 1 and lines[0] == lines[-1] and _FENCE.fullmatch(lines[0]):
        return "\n".join(lines[1:-1])
    if "quoted" in written:
        return "\n".join(line[2:] if line.startswith("> ") else line.removeprefix(">") for line in lines)
    if attributes.get("closed") == lines[-1]:  # as earlier versions closed what a text left open
        lines.pop()
    if attributes.get("demoted") in ("0", "1", "2"):
        lines = _promoted(lines, int(attributes["demoted"]))
    return attributes.get("lead", "") + "\n".join(lines) + attributes.get("trail", "")


def _holdable(text: str) -> tuple[str, dict[str, str]]:
    """Return text as a file can hold it line by line, and what the heading says of that."""
    if "\r" in text and text.count("\r\n") == text.count("\r") == text.count("\n"):
        text = text.replace("\r\n", "\n")
        if not _CONTROL.search(text):
            return text, {"eol": "crlf"}
        return _escaped(text), {"eol": "crlf", "written": "escaped"}
    return (_escaped(text), {"written": "escaped"}) if _CONTROL.search(text) else (text, {})


def _escaped(text: str) -> str:
    return _ESCAPABLE.sub(lambda found: "\\\\" if found[0] == "\\" else _code_point(found), text)


def _ends(text: str) -> dict[str, str]:
    """Return the empty lines around a text, of which a note does not tell how many there are."""
    if text[:1] != "\n" and text[-1:] and not text[-1].isspace():
        return {}
    inner = text.lstrip("\n")
    lines = inner.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    ends = {"lead": text[: len(text) - len(inner)], "trail": inner[len("\n".join(lines)) :]}
    return {name: end for name, end in ends.items() if end}


def _without(text: str, ends: Mapping[str, str]) -> str:
    return text[len(ends.get("lead", "")) : len(text) - len(ends.get("trail", ""))] if ends else text


def _quoted(lines: Sequence[str]) -> list[str]:
    return [f"> {line}" if line else ">" for line in lines]


def _demoted(lines: Sequence[str]) -> tuple[int, list[str]] | None:
    """Return lines with their headings below a message's own, and by how many levels; None where there are none.

    A line that makes the one above it a heading loses that power by a backslash.
    """
    headings = _headings(lines)
    levels = [heading.level for heading in headings if _is_marked(lines, heading)]
    if not headings or min(heading.level for heading in headings) > MESSAGE_LEVEL:
        return None
    shift = max(0, MESSAGE_LEVEL + 1 - min(levels, default=_MAX_LEVEL))
    changed = list(lines)
    for heading in headings:
        if _is_marked(lines, heading):
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
        if _is_marked(lines, heading) and heading.level > shift:
            changed[heading.start_line - 1] = line.replace("#" * (shift + 1), "#", 1)
    return [f"{found[1]}{found[2]}" if (found := _ESCAPED_UNDERLINE.fullmatch(line)) else line for line in changed]


def _headings(lines: Sequence[str]) -> list[Heading]:
    """Return the headings that the parser sees outside of lists, quotations and code."""
    tree = parse_blocks(thread_parser(), lines, 1)
    return [part for part in tree.parts if isinstance(part, Heading)] if tree else []


def _is_marked(lines: Sequence[str], heading: Heading) -> bool:
    """Tell whether `#` makes a heading, and no line below it."""
    return heading.start_line == heading.end_line and lines[heading.start_line - 1].lstrip(" ").startswith("#")


# ------------------------------------------------------------------------------------ headings of messages


def _check_heading(role: str, time: str, attributes: Mapping[str, str]) -> None:
    """Refuse what a heading would not give back. Raises UsageError."""
    if not is_role(role):
        raise UsageError(
            f"{role!r} is no role", hint="Write user, assistant, system, tool, agent:NAME, router or handoff."
        )
    if time and not _is_time(time):
        raise UsageError(f"{time!r} is no time", hint="Write it as 2026-11-21 10:02, or with a zone.")
    if not attributes.keys().isdisjoint(WRITING_ATTRIBUTES):
        own = next(name for name in WRITING_ATTRIBUTES if name in attributes)
        raise UsageError(
            f"{own} is an attribute of memsync's own",
            hint=f"These say how a message is written: {', '.join(WRITING_ATTRIBUTES)}.",
        )


@lru_cache(maxsize=256)
def is_role(role: str) -> bool:
    """Tell whether a message heading may name a role, and gives it back as it is."""
    if not role.isprintable() or printable(role) != role or read_message_heading(role) != (role, ""):
        return False
    line = f"## {role}"
    headings = _headings([line])
    return [section.role for section, _ in find_headings([line], 1)] == [role] == [one.text for one in headings]


@lru_cache(maxsize=256)
def _is_time(time: str) -> bool:
    return _TIME.fullmatch(time) is not None and parse_moment(time) is not None


def attribute_block(attributes: Mapping[str, str]) -> str:
    """Return `{key=value key="two words"}`, empty without any. Raises UsageError for what cannot be written so."""
    parts = []
    for key, given in attributes.items():
        value = given if given.isascii() else whole_characters(given)
        if key == "class" and _CLASSES.fullmatch(value):
            parts += [f".{name}" for name in value.split(" ")]
        elif _NAME.fullmatch(key):
            parts.append(f"{key}={value}" if _BARE.fullmatch(value) else f"{key}={_in_quotes(value)}")
        else:
            raise UsageError(f"{key!r} cannot name an attribute", hint="Use letters, digits, _ and -.")
    block = "{" + " ".join(parts) + "}" if parts else ""
    if len(block) > MAX_BLOCK_CHARS:
        raise UsageError(f"the attributes are over {MAX_BLOCK_CHARS} characters", hint="Put the rest into the text.")
    return block


def _in_quotes(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    for letter, character in ESCAPES.items():
        escaped = escaped.replace(character, f"\\{letter}")
    return '"' + _CONTROL.sub(_code_point, escaped) + '"'


def _code_point(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _no_text() -> UsageError:
    return UsageError("there is no text to write", hint="Give it as arguments or on standard input.")
