"""Search, and read the lines that a hit names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, structs

from memsync.model.answer import Excerpt, SearchResult
from memsync.model.query import LATEST_GENERATION, MAX_HITS, MAX_TOKENS, EmbeddedQuestion, SearchRequest
from memsync.model.vocabulary import Fresh, Mode
from memsync.operation import At, Cli, Command, Several, Tool, one_of, operation
from memsync.ports import Progress, no_progress

if TYPE_CHECKING:
    from memsync.workspace import Searched

SECTION = "Search"

Values = tuple[str, ...]
Limit = Annotated[
    int | None, Meta(ge=1, le=MAX_HITS, description="Maximum number of hits. [default: search.limit, 10]"), Cli(("-n",))
]
Tokens = Annotated[
    int | None, Meta(ge=1, le=MAX_TOKENS, description="Return as many hits as fit into N tokens."), Cli(metavar="N")
]
MinScore = Annotated[float | None, Meta(ge=0, le=1, description="Leave out hits with a lower score."), Cli(metavar="P")]
Rerank = Annotated[
    bool, Meta(description="Let a cross-encoder rate the first hits, and blend its rating with their scores.")
]
HowFresh = Annotated[
    str,
    one_of(
        Fresh,
        "How fresh the answer must be: strict (compare all files first), bounded (trust the daemon), "
        "none (use the index as it is).",
    ),
]
Generation = Annotated[
    int,
    Meta(ge=0, le=LATEST_GENERATION, description="Wait until the index has reached generation N."),
    Cli(metavar="N"),
]
After = Annotated[Values, Meta(description='Only since this day: 2026-11-01, 2026-11, yesterday, 3d, "2 weeks ago".')]
Where = Annotated[
    Values, Meta(description="Only where an attribute or front matter key has this value."), Cli(metavar="KEY=VALUE")
]


@operation(
    Command(
        "search",
        notes='Everything in WORDS that is not a filter, a "phrase" or an -exclusion is text. Options may come before '
        "or after the words. Write -exclusions after --, where nothing is read as an option. Exits with 1 if nothing "
        "matches, with 13 if nothing was found while files are still being indexed.",
        examples=(
            "memsync search which store did we choose",
            "memsync search what went wrong -n 3",
            "memsync search postgres '\"write-ahead log\"' -- -sqlite",
            'memsync search deploy kind:daily after:"2 weeks ago" tag:work',
            "memsync search --where emotion=fear --json",
            "memsync search --all-roots which store did we choose",
            "memsync search --at 2026-06-01 which store did we choose",
        ),
    ),
    tool=Tool(
        "memory_search",
        "Search the memory",
        "Find what the user and their agents know: people, projects, decisions, preferences, earlier conversations. "
        "Use it before you answer, plan or choose anything that may have come up before, and when the user says "
        "continue, again or as last time. Each hit quotes a file, with path and line. The query may contain filters: "
        'kind:daily, tag:work, in:projects/, role:user, session:s1, after:2026-11-01, before:yesterday, "an exact '
        'phrase", is:archived, is:current.',
        ("query", "limit", "tokens", "at"),
        {
            "query": "What to look for, in a few words or as a question.",
            "limit": "Maximum number of hits. Default: 10.",
            "at": "Search the notes as they were on this day, or at this commit.",
        },
    ),
    is_quick=True,
    several=Several.QUERY,
    needs_no_files=True,
)
def search(
    memory: Searched,
    query: Annotated[str, Meta(description="What to look for (docs/search.md)."), Cli(metavar="WORDS", is_text=True)],
    *,
    limit: Limit = None,
    mode: Annotated[str | None, one_of(Mode, "Which retrievers answer. [default: search.mode, hybrid]")] = None,
    tokens: Tokens = None,
    min_score: MinScore = None,
    rerank: Rerank = False,
    fresh: HowFresh = Fresh.STRICT,
    generation: Generation = 0,
    kind: Annotated[Values, Meta(description="Only soul, memory, daily, thread, prompt or note.")] = (),
    tier: Annotated[Values, Meta(description="Only personal, project or task memory.")] = (),
    tag: Annotated[Values, Meta(description="Only notes or items with this tag, or one under it.")] = (),
    folder: Annotated[Values, Meta(description="Only under this folder."), Cli(("--in",), names="folder")] = (),
    path: Annotated[Values, Meta(description="Only paths like this; * also matches slashes.")] = (),
    role: Annotated[Values, Meta(description="Only messages by this role: user, assistant, agent, …")] = (),
    by: Annotated[Values, Meta(description="Only from: owner, agent, an agent's name, tool, import, web.")] = (),
    session: Annotated[Values, Meta(description="Only messages of this session.")] = (),
    status: Annotated[Values, Meta(description="Only threads and messages with this status: active, …")] = (),
    after: After = (),
    before: Annotated[Values, Meta(description="Only until this day, inclusive.")] = (),
    where: Where = (),
    links: Annotated[Values, Meta(description="Only notes that link to this one."), Cli(names="location")] = (),
    linked_from: Annotated[Values, Meta(description="Only notes to which this one links."), Cli(names="location")] = (),
    archived: Annotated[bool, Meta(description="Search archived notes too.")] = False,
    all: Annotated[  # noqa: A002 (because a store calls it so)
        bool, Meta(description="Rank all that the filters leave: no lowest score."), Cli(is_hidden=True)
    ] = False,
    at: At = "",
    progress: Progress = no_progress,  # noqa: ARG001 (because only a commit takes long)
) -> SearchResult:
    """Find what the notes say about WORDS, by meaning and by word.

    Several values of one filter are alternatives. With `fresh` strict, changed files are indexed first, for up to two
    seconds; `freshness` and `warnings` say what the answer lacks. Hits come best first; scores are
    probabilities. `generation`, from a SyncReport, names a state of the index that the answer must include. With `at`,
    hits quote the files of a commit, and cite them as `path@commit:line`. Raises UsageError, RootError, IndexFailure,
    and with `rerank` UnknownModel.
    """
    options = {
        "kind": kind, "tier": tier, "tag": tag, "in": folder, "path": path, "role": role, "by": by, "session": session,
        "status": status, "after": after, "before": before, "where": where, "links": links,
        "linked-from": linked_from, "is": ("archived",) * archived,
    }  # fmt: skip
    pairs = tuple((name, value) for name, values in options.items() for value in values)
    chosen = Mode(mode) if mode else None
    least = 0.0 if all else min_score
    request = SearchRequest(query, limit, chosen, tokens, least, rerank, Fresh(fresh), generation, pairs)
    return _with_rest(memory, request) if all else memory.answer(request)


def _with_rest(memory: Searched, request: SearchRequest) -> SearchResult:
    """Return an answer with all that the filters leave, up to the limit: what no retriever has found last, by time."""
    found, query = memory.answer(request), memory.parse(request)
    known = {(hit.path, hit.start_line) for hit in found.hits}
    unranked = structs.replace(query, text="", words=(), alternatives=())
    latest = memory.fresh_search.answer_uncounted(unranked).hits if len(known) < query.limit else ()
    rest = (hit for hit in latest if (hit.path, hit.start_line) not in known)
    return structs.replace(found, hits=(*found.hits, *rest)[: query.limit])


@operation(is_quick=True, needs_no_files=True)
def answer_request(
    memory: Searched,
    request: Annotated[SearchRequest, Meta(description="The search: a SearchRequest.")],
    *,
    at: At = "",
) -> SearchResult:
    """Answer a search that is already a request, as one search of several memories sends it to each of them."""
    return memory.answer(request)


@operation(is_quick=True, needs_no_files=True)
def embed_question(
    memory: Searched, query: Annotated[str, Meta(description="What to look for; filters in it are left out.")]
) -> EmbeddedQuestion:
    """Embed a query as `search` does, so that other memories with the same model need not.

    Raises UsageError, and EmbedderError if the model fails or nothing is embedded yet.
    """
    return memory.fresh_search.embed(memory.parse(SearchRequest(query)))


@operation(
    Command(
        "get",
        notes="Name a note as search prints it, by its path from the current folder or an absolute path, with or "
        "without .md, or by a title, an alias or a file name that only one note has.",
        examples=(
            "memsync get SOUL.md",
            "memsync get daily/2026-11-21.md:12",
            "memsync get daily/2026-11-21.md:12:5      five lines from line 12",
            "memsync get daily/2026-11-21.md:12-16     lines 12 to 16, as search prints them",
            "memsync get projects/store.md#decision    a section, by its heading",
            "memsync get '[[store#^why]]'              a block, as a link names it",
            "memsync get SOUL.md@main~20:5             a line, as it was",
        ),
    ),
    tool=Tool(
        "memory_get",
        "Read lines of a note",
        "Read a note, or the lines around a hit. Use it when a hit is not enough.",
        ("location",),
    ),
    is_quick=True,
    several=Several.LOCATION,
    needs_no_files=True,
)
def get(
    memory: Searched,
    location: Annotated[
        str,
        Meta(
            description="PATH, PATH:LINE, PATH:LINE:COUNT, PATH:FIRST-LAST, PATH#heading, PATH#^block or [[a link]]. "
            "PATH may be a title or an alias. PATH@REV is the note at a commit, tag or date."
        ),
        Cli(names="location"),
    ],
) -> Excerpt:
    """Print the lines that LOCATION names, from the file as it is now, or as it was at a commit.

    Reads nothing outside the memory root. Raises NoSuchNote, NoteError, UsageError.
    """
    excerpt = memory.excerpt(location)
    memory.usage.read([excerpt.path])
    return excerpt
