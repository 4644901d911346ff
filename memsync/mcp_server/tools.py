"""The tools, each with its schema, what it is for and what it may do. Nothing here knows the protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from memsync.mcp_server import answers
from memsync.mcp_server.answers import Answer, Arguments

if TYPE_CHECKING:
    from memsync.memory_api import MemoryApi


class Tool(NamedTuple):
    """One tool. `needed` are the parameters that cannot be left out."""

    name: str
    title: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    needed: tuple[str, ...]
    run: Callable[[MemoryApi, Arguments], Answer]
    is_read_only: bool = True
    is_idempotent: bool = True
    targets: Callable[[Arguments], Sequence[str]] = lambda arguments: ()
    """Returns what the tool may write to, by its arguments."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments; it refuses names that it does not know."""
        return {
            "type": "object",
            "properties": {name: dict(one) for name, one in self.parameters.items()},
            "required": list(self.needed),
            "additionalProperties": False,
        }


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def _number(description: str, least: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "description": description, "minimum": least, "maximum": most}


def _texts(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "description": description}


TOOLS = (
    Tool(
        "memory_search",
        "Search the memory",
        "Find what the memory's notes say, by meaning and by word. Use it before answering anything that may have "
        "come up before: people, decisions, preferences, earlier conversations. Every hit quotes its file and "
        "names path and line. The query may hold filters: kind:daily, tag:work, in:projects/, role:user, "
        'session:s1, after:2026-11-01, before:yesterday, "an exact phrase", is:archived.',
        {
            "query": _text("What to look for, in a few words or as a question."),
            "limit": _number("How many hits at most; 10 unless it is given.", 1, 100),
            "tokens": _number("As many hits as fit this many tokens.", 1, 1_000_000),
        },
        ("query",),
        answers.search,
    ),
    Tool(
        "memory_get",
        "Read lines of a note",
        "Read a note, or the lines around a hit, as the file is now. Use it when a hit is not enough. A note that is "
        "not there gives an empty answer with its path.",
        {
            "location": _text(
                "PATH, PATH:LINE, PATH:FIRST-LAST or PATH#heading, as search results name it: "
                "daily/2026-11-21.md:12-20. A title or an alias may stand for PATH."
            )
        },
        ("location",),
        answers.get,
    ),
    Tool(
        "memory_context",
        "Assemble a context",
        "Return what to read before starting to work: who the agent is, standing prompts, what lasts, the last "
        "messages of a thread, the logs of today and yesterday, and what is found for a query; never over the budget. "
        "Use it once at the beginning of a conversation or task.",
        {
            "query": _text("What the work is about; may be left out."),
            "thread": _text("The name of the thread that is being continued."),
            "budget": _number("Tokens at most; the setting context.budget unless it is given.", 1, 200_000),
        },
        (),
        answers.context,
    ),
    Tool(
        "memory_log",
        "Write to today's log",
        "Append an entry to today's log, with the time. Use it for what happened: work done, decisions on the way, "
        "things tried. What should last belongs to memory_remember.",
        {"text": _text("One entry, in a sentence or two.", minLength=1), "tags": _texts("Tags, without #.")},
        ("text",),
        answers.log,
        is_read_only=False,
        is_idempotent=False,
    ),
    Tool(
        "memory_remember",
        "Remember something",
        "Add a fact, a preference or a decision to what lasts, as a list item. Use it for what will matter in other "
        "conversations. What stands there already is not added again.",
        {
            "text": _text("One thing, so that it is understood without this conversation.", minLength=1),
            "section": _text("The heading to put it under; made if it is not there."),
            "note": _text("Another note than MEMORY.md, by its path; not SOUL.md and no prompt."),
            "tier": _text(
                "How long it matters: for good, for a project, or for a task.", enum=["personal", "project", "task"]
            ),
            "tags": _texts("Tags, without #."),
        },
        ("text",),
        answers.remember,
        is_read_only=False,
        targets=answers.targets_of_remember,
    ),
    Tool(
        "memory_thread_append",
        "Append a message to a thread",
        "Append a message to a conversation that is kept in the memory. Use it to record what was said, who said it "
        "and what it cost.",
        {
            "thread": _text("The thread's name or path.", minLength=1),
            "role": _text("user, assistant, system, tool, agent:NAME, router or handoff."),
            "text": _text("The message.", minLength=1),
            "attributes": {
                "type": "object",
                "description": "model, in and out (tokens), cost (US dollars), status, or any other.",
                "additionalProperties": {"type": ["string", "number"]},
            },
            "begin": {"type": "boolean", "description": "Begin the thread when there is none of that name."},
        },
        ("thread", "role", "text"),
        answers.thread_append,
        is_read_only=False,
        is_idempotent=False,
        targets=answers.targets_of_thread,
    ),
    Tool(
        "memory_status",
        "Status of the memory",
        "Tell how much the memory holds, whether its index is current, and what is wrong if anything is. Use it when "
        "answers carry warnings.",
        {},
        (),
        answers.status,
    ),
)
