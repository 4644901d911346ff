"""All settings with their defaults and bounds, and the default kinds and tiers of notes by their paths."""

from __future__ import annotations

from collections.abc import Mapping

from memsync.model.vocabulary import Kind, Mode, Tier
from memsync.settings.setting import Setting

BUILT_IN_MODEL = "minilm"
ROOTS_NAME = "roots.toml"
RERANK_MODEL = "Xenova/ms-marco-MiniLM-L-6-v2"
UNITED = "privacy.local_only"
"""The setting whose lists from all config files and the environment are united: none of them can remove a pattern."""
EXCLUDED = "files.exclude"
"""The setting whose patterns in the user's own file count even if another file has patterns, too."""
DSN = "index.dsn"
"""The setting that holds a password."""
NOT_SHARED = ("memsync.root", "index.name")
"""Settings in the user's own config file that apply to one memory root; all others there apply to every root."""

AUTOSTART = ("terminal", "always", "never")
SETTINGS = (
    Setting("memsync.root", ".", "Folder of the notes, relative to this file."),
    Setting("files.exclude", [], "Files that are not notes: patterns as in .gitignore, in addition to those there."),
    Setting("files.suffixes", [], "More endings of notes, such as .txt: they are read as plain paragraphs."),
    Setting(
        "privacy.local_only", [], "Notes whose text never leaves this machine: patterns as in .gitignore, without !."
    ),
    Setting(
        "embedder.model", BUILT_IN_MODEL, "minilm (built in), multilingual, a fastembed model's name, or openai:MODEL."
    ),
    Setting("index.backend", "sqlite", "What keeps the index: sqlite, or postgres (docs/postgres.md)."),
    Setting("index.dsn", "", "postgres: the connection string; only in your own config file or MEMSYNC_INDEX_DSN."),
    Setting("index.name", "", "postgres: the memory's name in the database; empty: the root folder's name."),
    Setting("index.store_text", False, "postgres: store the notes' text, for machines without the files."),
    Setting("search.limit", 10, "Hits that a search returns.", (1, 1000)),
    Setting("search.mode", "hybrid", "hybrid, keyword or vector.", choices=tuple(Mode)),
    Setting("search.min_score", 0.05, "Show no hit with a lower score.", (0, 1)),
    Setting("search.rerank_model", RERANK_MODEL, "Cross-encoder for --rerank: a model name that fastembed knows."),
    Setting("prune.task_days", 30, "Days without a change after which `prune` archives a task note.", (1, 100_000)),
    Setting("check.ignore", [], "Findings that memsync check leaves out: patterns of notes, and rules."),
    Setting("usage.count", True, "Count searches and the notes that they retrieve, for `stale` and `stats`."),
    Setting("usage.queries", False, "Store the text of questions too; by default only their number is stored."),
    Setting("git.commit", False, "Commit each note that memsync writes (except imports) to git, and nothing else."),
    Setting("agents.roots", [], "Registered memories that agents recall from in every folder, besides its own memory."),
    Setting("agents.off", [], "Folders in which agents recall nothing, and whose conversations are not taken in."),
    Setting("agents.keep_raw", False, "Keep an agent's raw transcript even if it has a secret."),
    Setting(
        "agents.notes",
        ["rules"],
        "What words the notes of sessions: rules, off, or a program, such as ['claude', '-p'].",
        choices=("rules", "off"),
    ),
    Setting("agents.notes_remote", False, "Let the program of agents.notes read conversations: it may send them away."),
    Setting("agents.notes_sessions", 20, "Sessions a day for the program of agents.notes.", (0, 10_000)),
    Setting("agents.notes_tokens", 200_000, "Tokens a day for the program of agents.notes.", (0, 10**9)),
    Setting("curator.command", [], "Program that proposes changes instead of rules: it reads and answers JSON."),
    Setting("curator.judge", [], "Program that decides which pairs of memsync contradictions contradict each other."),
    Setting("curator.nightly", False, "Let the daemon run memsync curate once a night; it only proposes."),
    Setting("daemon.use", True, "Use the daemon if one serves this root with the same settings."),
    Setting(
        "daemon.autostart",
        "terminal",
        "When a command starts the daemon: terminal (if a person typed the command), always or never.",
        choices=AUTOSTART,
    ),
    Setting(
        "cli.open_with",
        "",
        "Where terminal links lead: vscode, cursor, zed, idea, sublime, a URL with {path} and {line}; empty: the file.",
    ),
    Setting("cli.pager", True, "Show output that is longer than the terminal in $PAGER, or in less."),
)

DATED_NAME = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9].md"
DEFAULT_KINDS: Mapping[str, str] = {
    DATED_NAME: "daily",
    "/SOUL.md": "soul",
    "/MEMORY.md": "memory",
    "/daily/": "daily",
    "/threads/": "thread",
    "/prompts/": "prompt",
}
DEFAULT_TIERS: Mapping[str, str] = {
    "/SOUL.md": "personal",
    "/MEMORY.md": "personal",
    "/preferences.md": "personal",
    "/prompts/": "personal",
    "/daily/": "task",
    "/threads/": "task",
}
GLOB_TABLES: Mapping[str, tuple[Mapping[str, str], tuple[str, ...], str]] = {
    "kinds": (DEFAULT_KINDS, tuple(Kind), "The kind of a note by its path: pattern = kind; the last match wins."),
    "tiers": (DEFAULT_TIERS, tuple(Tier), "How long a note matters, by its path: pattern = tier; the last match wins."),
}
