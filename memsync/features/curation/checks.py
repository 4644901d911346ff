"""Checks each proposed change: its citations must hold, and its text may be neither an instruction nor a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from memsync.edit.note_paths import note_path
from memsync.errors import MemsyncError
from memsync.features.curation.gathering import GatheredStatement
from memsync.model.curation import Act, Proposed
from memsync.model.vocabulary import NotePath, may_instruct
from memsync.notes.dates import is_kept_for_good
from memsync.notes.secrets import secrets_in

if TYPE_CHECKING:
    from memsync.workspace import Workspace

MAX_CHARS = 1_000
_INSTRUCTS = re.compile(
    r"\b(?:ignore|disregard|forget)\b.{0,40}\b(?:previous|prior|above|earlier|all)\b.{0,40}\b(?:instruct|prompt|rule|message)"
    r"|\b(?:you are now|act as|from now on,? you|your (?:new )?(?:instructions|system prompt))\b"
    r"|^\s*(?:system|assistant|user|developer)\s*:|</?(?:system|instructions?|tool)\b"
    r"|\bdo not tell (?:the )?(?:user|owner)\b",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)


def refusal(change: Proposed, said: Mapping[str, GatheredStatement], memory: Workspace) -> str:
    """Return why a change is refused; empty if it may be proposed. `said` has the statements by their citations."""
    wrong = next((source for source in (*change.sources, change.supersedes) if source and source not in said), "")
    if wrong or not change.sources:
        return f"cites {wrong or 'nothing'}, which does not hold{_nearest(wrong, said)}"
    text = f"{change.text}\n{change.section}" if change.act is not Act.ARCHIVE else change.note
    return reason_against(text) or _of_place(change, [said[s] for s in change.sources], said, memory)


def reason_against(text: str) -> str:
    """Return why a line of a program's is not used; empty if nothing is wrong."""
    if len(text) > MAX_CHARS or text.count("\n") > 1 or not text.strip() or not text.replace("\n", "").isprintable():
        return "is not one line of text"
    if _INSTRUCTS.search(text):
        return "reads like an instruction to an agent"
    return "contains a secret" if secrets_in(text) else ""


def _of_place(
    change: Proposed, sources: Sequence[GatheredStatement], said: Mapping[str, GatheredStatement], memory: Workspace
) -> str:
    """Return why the note may not be changed, or not with text of these sources."""
    if not all(may_instruct(one.origin) for one in sources):
        return "is from a tool, an import or a web page"
    try:
        note = note_path(change.note)
    except MemsyncError as error:
        return error.message
    replaced = NotePath(said[change.supersedes].path if change.supersedes else note)
    instructs = any(map(memory.reader.rules.instructs, (note, replaced)))
    if instructs or memory.files.leaves_out(note) or note != change.note:
        return f"would write to {change.note}, which is no note that the curator may change"
    if any(one.local_only for one in sources) and not _is_local_only(note, said, memory):
        return f"would bring local-only text into {change.note}"
    if change.act is Act.ARCHIVE:
        with memory.as_of_now() as (reader, _):
            found = next((one for one in reader.notes() if one.path == note), None)
        if found is None or is_kept_for_good(found):
            return f"would archive {note}, which is pinned, personal, archived already or not there"
    is_there = any(one.path == change.note and one.text == change.text for one in said.values())
    if change.act in (Act.STRIKE, Act.TICK) and not is_there:
        return f"is about a line that {change.note} does not have"
    return ""


def _nearest(citation: str, said: Mapping[str, GatheredStatement]) -> str:
    """Return where the text of a citation is now, or the line of the statement nearest to it."""
    place, _, digest = citation.partition("~")
    path, _, line = place.rpartition(":")
    of_note = [one for one in said.values() if one.path == path]
    moved = [one for one in of_note if digest and one.digest == digest] or of_note
    first = line.partition("-")[0]
    if not moved or not first.isdigit():
        return ""
    near = min(moved, key=lambda one: abs(one.first - int(first)))
    return f". The nearest is {near.path}:{near.first}"


def _is_local_only(note: NotePath, said: Mapping[str, GatheredStatement], memory: Workspace) -> bool:
    return memory.reader.rules.is_local_only(note) or any(one.local_only for one in said.values() if one.path == note)
