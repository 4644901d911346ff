"""The frameworks' own tests, and how to run them with memsync's classes in place of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

FOREIGN_VECTORS = "compares scores with those of an embedding model of the test; memsync has its own"
SQL = "looks into SQLite's tables"
PRIVATE = "uses a private method of the SDK's own class"
OF_SQLITE = "looks into SQLite's connections, tables and locks"


PACKAGES = ("hypothesis", "pytest")
ALONE = ("-c", "/dev/null", "--noconftest")


@dataclass(frozen=True)
class Suite:
    """One suite: it is run in an environment with memsync[`extra`], `packages` and PACKAGES.

    `sdist` is the package whose source archive on PyPI has the `tests`; empty if these are files of this project. Then
    the folder in which pytest runs is that of the archive; otherwise this project's. `plugin` is a module of this
    folder that puts our class in place of theirs: `PYTHONPATH=tests/integrations pytest -p PLUGIN`. `fails` has the
    tests that fail, by a part of their names, with the reason.
    """

    extra: str
    packages: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    sdist: str = ""
    plugin: str = ""
    options: tuple[str, ...] = ()
    fails: Mapping[str, str] = field(default_factory=dict)


SUITES = {
    "anthropic": Suite(
        "anthropic",
        ("pytest-asyncio",),
        ("tests/lib/tools/memory_tools/test_filesystem.py",),
        sdist="anthropic",
        plugin="anthropic_plugin",
        options=("--noconftest",),  # its conftest.py is for requests, with packages of their own
        fails={
            "after_validation": PRIVATE,
            "before_open": PRIVATE,
            "test_validate_path": PRIVATE,
            "test_mkdir_parents": "looks at the modes of the SDK's own folders",
            "test_view_lists_symlinks": "expects a link to be listed; memsync follows no links",
        },
    ),
    "claude-agent-sdk": Suite(
        "claude-agent-sdk",
        ("anyio[trio]",),
        ("tests/test_session_store_conformance.py",),
        sdist="claude-agent-sdk",
        plugin="claude_agent_sdk_plugin",
        fails={"_helper": "calls a helper for tests that only the SDK's store in memory has"},
    ),
    "openai-agents": Suite(
        "openai-agents",
        ("inline-snapshot", "pytest-asyncio"),
        ("tests/memory/test_session.py", "tests/memory/test_session_limit.py"),
        sdist="openai-agents",
        plugin="openai_agents_plugin",
        fails={
            **dict.fromkeys(("connection", "lock", "corrupt", "rolls_back", "post_commit"), OF_SQLITE),
            "closed_rejects": "expects a session to be closed; here its memory is",
        },
    ),
    "langgraph": Suite(
        "langgraph",
        ("langgraph-checkpoint-sqlite", "pytest-asyncio"),
        ("tests/test_store.py", "tests/test_async_store.py"),
        sdist="langgraph-checkpoint-sqlite",
        plugin="langgraph_plugin",
        options=("--asyncio-mode=auto",),
        fails={
            "test_vector_store_initialization": SQL,
            "test_embed_with_path[cosine]": FOREIGN_VECTORS,
            "test_async_store.py::test_embed_with_path": FOREIGN_VECTORS,
            "test_scores": FOREIGN_VECTORS,
            "test_no_running_loop": "wants an error of a blocking call in a coroutine; ours just works",
        },
    ),
    "langchain": Suite(
        "langchain",
        ("langchain-tests", "pytest-asyncio"),
        ("tests/integrations/langchain_suite.py",),
        options=(*ALONE, "--asyncio-mode=auto"),
    ),
    "adk": Suite("adk"),
    "strands": Suite("strands"),
    "llamaindex": Suite("llamaindex"),
    "deepagents": Suite("langgraph", ("deepagents",)),
}
"""By the name of the adapter. Of ADK, Strands, LlamaIndex and deepagents no suite for such classes is on PyPI."""
