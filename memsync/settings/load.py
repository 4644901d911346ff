"""Every setting, its default, and where its value came from: environment over config.toml over the user's own file.

A setting `table.key` is `key` under `[table]` in config.toml and `MEMSYNC_TABLE_KEY` in the environment
(`memsync.root` is `MEMSYNC_ROOT`). Nothing is guessed: an unknown name or a wrong type is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from memsync.errors import ConfigError
from memsync.model.vocabulary import Kind, Mode, Tier
from memsync.settings.config_file import NAME as CONFIG_NAME
from memsync.settings.config_file import ConfigFile, found_above, nearest, parse_config, users_own
from memsync.settings.paths import expanded, keep_dir, real, resolve_index_dir, resolve_root, root_of
from memsync.system.user_folders import FOLDER_VARIABLES, config_folder

if TYPE_CHECKING:
    from pathlib import Path

BUILT_IN_MODEL = "minilm"
RERANK_MODEL = "Xenova/ms-marco-MiniLM-L-6-v2"
OF_ONE_ROOT = ("memsync.root", "index.dir")
"""What the user's own config file says about one memory root only; all else in it holds for every root."""


class Setting(NamedTuple):
    """One setting: its name, default, one line of explanation and what its value must satisfy beyond its type.

    A tuple, because every command makes all of them.
    """

    name: str
    default: Any
    explanation: str
    accepts: Callable[[Any], bool] = lambda value: True
    expected: str = ""

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "MEMSYNC_" + self.name.removeprefix("memsync.").replace(".", "_").upper()


def _between(least: float, most: float) -> tuple[Callable[[Any], bool], str]:
    return (lambda value: bool(least <= value <= most)), f"from {least:g} to {most:g}"


AUTOSTART = ("terminal", "always", "never")
SETTINGS = (
    Setting("memsync.root", ".", "The folder of notes, relative to this file."),
    Setting("files.exclude", [], "More files that are not notes: patterns as in .gitignore."),
    Setting(
        "files.max_structured_bytes",
        2_000_000,
        "A larger file is indexed by plain paragraphs.",
        *_between(1, 64_000_000),
    ),
    Setting("chunks.max_tokens", 254, "Word pieces in a chunk; the built-in model reads 254.", *_between(32, 254)),
    Setting("chunks.small_tokens", 120, "A list item up to this size can be an entry of its own.", *_between(0, 254)),
    Setting(
        "chunks.run_tokens", 400, "A longer list in a reference note is searched by item.", *_between(0, 1_000_000)
    ),
    Setting(
        "chunks.window_entries",
        5,
        "Lines of a conversation that are also found together.",
        *_between(2, 20),
    ),
    Setting(
        "chunks.window_stride",
        2,
        "After how many lines the next such window begins, on average.",
        *_between(1, 20),
    ),
    Setting(
        "embedder.model",
        BUILT_IN_MODEL,
        "minilm (built in), multilingual, the name of a fastembed model, or openai:MODEL.",
    ),
    Setting("embedder.threads", 0, "Texts embedded at once; 0: as many as there are processors.", *_between(0, 256)),
    Setting("index.dir", "", "The folder of the index; empty: the platform's folder for such state."),
    Setting(
        "index.vector_cache_mb",
        512,
        "MB of disk for the vectors that all your memories share; 0: share none.",
        *_between(0, 1_000_000),
    ),
    Setting(
        "index.processes",
        0,
        "Processes that read notes when many are new; 0: as many as there are processors, up to 4; 1: no others.",
        *_between(0, 64),
    ),
    Setting("search.limit", 10, "Hits a search returns.", *_between(1, 1000)),
    Setting(
        "search.mode",
        "hybrid",
        "hybrid, keyword or vector.",
        lambda value: value in list(Mode),
        "hybrid, keyword or vector",
    ),
    Setting("search.keyword_weight", 0.2, "Weight of the keyword score against the semantic score.", *_between(0, 1)),
    Setting(
        "search.memory_keyword_weight", 0.35, "The same in logs, threads, MEMORY.md and preferences.", *_between(0, 1)
    ),
    Setting(
        "search.min_score",
        0.05,
        "If the best hit has a lower score, only hits with every word of the question are shown.",
        *_between(0, 1),
    ),
    Setting("search.candidates", 200, "Chunks each retriever contributes.", *_between(10, 2000)),
    Setting("search.recency", 0.01, "How much of the score newness may decide at most.", *_between(0, 0.5)),
    Setting("search.recency_days", 90, "Age in days at which half of that is left.", *_between(1, 100_000)),
    Setting("search.importance", 0.02, "How much of the score `importance` may decide at most.", *_between(0, 0.5)),
    Setting("search.pinned", 0.01, "What `pinned: true` adds to the score.", *_between(0, 0.5)),
    Setting(
        "search.deadline_ms",
        2_000,
        "How long a search may spend on indexing changed files first, and in a daemon on reranking (2 s at least).",
        *_between(0, 600_000),
    ),
    Setting(
        "search.bound_ms",
        5_000,
        "How old the comparison with the files may be for --fresh bounded.",
        *_between(0, 3_600_000),
    ),
    Setting(
        "search.rerank_model", RERANK_MODEL, "The cross-encoder of --rerank: the name of one that fastembed knows."
    ),
    Setting("search.rerank_weight", 0.5, "Weight of its relevance against the first score.", *_between(0, 0.9)),
    Setting("context.budget", 4_000, "Word pieces of a context for which no budget is named.", *_between(1, 1_000_000)),
    Setting("context.soul", 0.15, "The share of it that SOUL.md has.", *_between(0, 1)),
    Setting("context.prompts", 0.15, "The share of prompts/ and of the thread's own prompt.", *_between(0, 1)),
    Setting("context.memory", 0.2, "The share of pinned notes and MEMORY.md.", *_between(0, 1)),
    Setting("context.messages", 0.2, "The share of the thread's last messages.", *_between(0, 1)),
    Setting("context.logs", 0.1, "The share of today's and yesterday's logs; hits have the rest.", *_between(0, 1)),
    Setting(
        "prune.task_days",
        30,
        "After how many days without a change task memory is due to retire.",
        *_between(1, 100_000),
    ),
    Setting("usage.count", True, "Count searches and what they retrieve, for `stale` and `stats`."),
    Setting("usage.queries", False, "Keep the text of questions, too; else nothing of them is kept."),
    Setting("git.commit", False, "Commit each note that memsync writes (imports aside) to git, and nothing else."),
    Setting("daemon.use", True, "Ask the daemon, where one serves this root with these settings."),
    Setting(
        "daemon.autostart",
        "terminal",
        "Start the daemon after a command that found none: terminal (one that a person typed), always or never.",
        lambda value: value in AUTOSTART,
        "terminal, always or never",
    ),
    Setting(
        "daemon.idle_exit_minutes",
        120,
        "A daemon that was started so ends after so many minutes without a request.",
        *_between(1, 100_000),
    ),
    Setting(
        "daemon.settle_ms", 30, "How long a file must stand still before the daemon reads it.", *_between(0, 5_000)
    ),
    Setting(
        "daemon.longest_settle_ms", 1_000, "How long it waits at most for one that does not.", *_between(0, 60_000)
    ),
    Setting("daemon.rescan_seconds", 30, "How often it compares all files, whatever was reported.", *_between(1, 60)),
    Setting("daemon.poll_seconds", 2, "The same where nothing is reported (network file systems).", *_between(1, 60)),
    Setting(
        "daemon.idle_unload_minutes",
        15,
        "After so many minutes without use, the model leaves memory.",
        *_between(0, 100_000),
    ),
    Setting(
        "cli.open_with",
        "",
        "Where links on a terminal lead: vscode, cursor, zed, idea, sublime, or a URL with {path} and {line}; "
        "empty: the file.",
    ),
    Setting("cli.pager", True, "Show output that is longer than the terminal in $PAGER, or in less."),
)

DEFAULT_KINDS: Mapping[str, str] = {
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
    "kinds": (DEFAULT_KINDS, tuple(Kind), "What a note is, by its path: pattern = kind; the last match wins."),
    "tiers": (DEFAULT_TIERS, tuple(Tier), "How long a note matters, by its path: pattern = tier; the last match wins."),
}


class Settings:
    """The resolved settings. `values` has every name of SETTINGS; `sources` says where each value came from.

    `root_name` and `index_name` are the absolute paths `root` and `index_dir` as text: all that is needed to ask a
    daemon, which is so spared loading pathlib.
    """

    def __init__(
        self,
        root_name: str,
        index_name: str,
        values: Mapping[str, Any],
        kinds: Mapping[str, str],
        tiers: Mapping[str, str],
        sources: Mapping[str, str],
        options: Sequence[str] = (),
        warnings: Sequence[str] = (),
    ) -> None:
        """`options` are the global options that give the same settings in any folder with the same environment.

        `warnings` are sentences about config files that were found and are not used.
        """
        self.root_name = root_name
        self.index_name = index_name
        self.values = values
        self.kinds = kinds
        self.tiers = tiers
        self.sources = sources
        self.options = options
        self.warnings = warnings

    @property
    def root(self) -> Path:
        """The memory root."""
        from pathlib import Path

        return Path(self.root_name)

    @property
    def index_dir(self) -> Path:
        """The folder of the index, the log and the locks."""
        from pathlib import Path

        return Path(self.index_name)

    @property
    def keep_dir(self) -> Path:
        """The folder of what outlives the index: the writers' lock and the journal of what was appended."""
        from pathlib import Path

        return Path(keep_dir(self.root_name))

    def __getitem__(self, name: str) -> Any:
        """Return one value by its name, `search.limit`."""
        return self.values[name]


class _Files(NamedTuple):
    """The config files that count: the user's own, and over it the one that was named or found."""

    own: ConfigFile | None
    over: ConfigFile | None
    is_named: bool
    warnings: Sequence[str]


def load_settings(
    *,
    config: str | os.PathLike[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
) -> Settings:
    """Resolve all settings.

    `config` names the only file that counts; otherwise MEMSYNC_CONFIG does; otherwise the nearest config file of a
    memory root upwards counts, over the user's own. `root` names the memory root itself; a file that was found from
    there counts only if it is that root's. A file that was found decides only what memsync.settings.trust lets it.

    Raises ConfigError, with file and line, for anything that cannot be used as written, RootError for a missing root.
    """
    environ = os.environ if environ is None else environ
    named = os.fspath(config or environ.get("MEMSYNC_CONFIG") or "")
    files, wanted = _files(named, root, cwd, environ)
    values, sources = _values(files, environ, wanted, is_option=root is not None)
    if "memsync.root" not in sources:
        raise _no_root(files)
    tables = {name: _globs(name, files, sources) for name in GLOB_TABLES}
    paths = {name: (values[name], sources.get(name, ""), _base(files, sources.get(name, ""))) for name in OF_ONE_ROOT}
    values["memsync.root"] = resolved_root = resolve_root(*paths["memsync.root"])
    index_dir = resolve_index_dir(*paths["index.dir"], resolved_root)
    sources = {name: sources.get(name, "default") for name in values}
    options = ["--config", files.over.path] if files.over is not None and files.is_named else []
    if not options or root is not None or sources["memsync.root"] == "MEMSYNC_ROOT":
        options += ["--root", resolved_root]
    warnings = [*files.warnings, *_unknown_variables(environ)]
    return Settings(resolved_root, index_dir, values, tables["kinds"], tables["tiers"], sources, options, warnings)


def _no_root(files: _Files) -> ConfigError:
    if files.over is not None:
        hint = "Set root under [memsync] in it, or name a folder with --root."
        return ConfigError(f"{files.over.path} names no memory root", hint=hint)
    return ConfigError(
        "no memory root is known: no config.toml or memsync.toml with a [memsync] table was found here or above",
        hint="\n".join([*files.warnings, "Run memsync init, or name a folder with --root, or a file with --config."]),
    )


def with_changes(settings: Settings, changes: Mapping[str, str], where: str) -> Settings:
    """Return settings with some values changed, each given as text; `where` names in messages what gave them.

    Raises ConfigError for an unknown name or a wrong value.
    """
    by_name = {setting.name: setting for setting in SETTINGS}
    values, sources = dict(settings.values), dict(settings.sources)
    for name, text in changes.items():
        if name not in by_name:
            raise ConfigError(f"{where}: no such setting: {name}", hint=nearest(name, tuple(by_name)))
        values[name] = _checked(by_name[name], _from_text(by_name[name], text), where)
        sources[name] = where
    return Settings(
        settings.root_name,
        settings.index_name,
        values,
        settings.kinds,
        settings.tiers,
        sources,
        settings.options,
        settings.warnings,
    )


def deciding_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that decide settings, or where memsync finds and keeps its own files."""
    names = (name for name in environ if name.startswith("MEMSYNC_") or name in FOLDER_VARIABLES)
    return {name: environ[name] for name in sorted(names)}


def find_config(
    config: str | os.PathLike[str] | None = None, root: str | os.PathLike[str] | None = None
) -> ConfigFile | None:
    """Return the file that `load_settings` would take over the user's own, whether or not it can be used."""
    named = os.fspath(config or os.environ.get("MEMSYNC_CONFIG") or "")
    return _files(named, root, None, os.environ)[0].over


def settings_to_trust(file: ConfigFile) -> dict[str, Any]:
    """Return the settings in a file that count only if it is trusted. Raises ConfigError for what no file may say."""
    from memsync.settings.trust import risky_settings

    given = _given(file)
    own = users_own([])
    otherwise = {**_defaults(), **(_given(own) if own is not None else {})}
    return {name: given[name] for name in risky_settings(file, given, otherwise)}


def _files(
    named: str,
    root: str | os.PathLike[str] | None,
    cwd: str | os.PathLike[str] | None,
    environ: Mapping[str, str],
) -> tuple[_Files, str]:
    """Return the config files that count, and the memory root as an option or the environment names it, or nothing."""
    variable = environ.get("MEMSYNC_ROOT", "")
    where = "MEMSYNC_ROOT" if root is None else "--root"
    wanted = os.path.abspath(expanded(os.fspath(root), where)) if root is not None else expanded(variable, where)
    if named:
        return _Files(None, parse_config(expanded(named, "--config")), True, ()), wanted
    ignored = list[str]()
    own = users_own(ignored)
    for file in found_above(os.path.abspath(wanted or cwd or os.getcwd()), ignored):
        if (own is None or file.path != own.path) and not (wanted and real(root_of(file)) != real(wanted)):
            return _Files(own, file, False, ignored), wanted
    return _Files(own, None, False, ignored), wanted


def _values(
    files: _Files, environ: Mapping[str, str], wanted: str, *, is_option: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return each setting's value, and where those that are not defaults came from.

    `wanted` is the memory root that an option or the environment names.
    """
    values = _defaults()
    sources: dict[str, str] = {}
    if files.own is not None:
        is_its_root = files.over is None and (not wanted or real(wanted) == real(root_of(files.own)))
        for name, value in _given(files.own).items():
            if is_its_root or name not in OF_ONE_ROOT:
                values[name], sources[name] = value, files.own.where(name)
    otherwise = dict(values)
    if files.over is not None:
        for name, value in _given(files.over).items():
            values[name], sources[name] = value, files.over.where(name)
    for setting, value in _in_environment(environ):
        values[setting.name], sources[setting.name] = value, setting.variable
    if is_option:
        values["memsync.root"], sources["memsync.root"] = wanted, "--root"
    if files.over is not None and not files.is_named:
        _check_trust(files.over, values, sources, otherwise)
    return values, sources


def _defaults() -> dict[str, Any]:
    return {setting.name: setting.default for setting in SETTINGS}


def _given(file: ConfigFile) -> dict[str, Any]:
    """Return what a file sets, in its order. Raises ConfigError for an unknown name or a wrong value."""
    by_name = {setting.name: setting for setting in SETTINGS}
    return {
        name: _checked(by_name[name], value, file.where(name))
        for name, value in file.settings(tuple(by_name), tuple(GLOB_TABLES))
    }


def _in_environment(environ: Mapping[str, str]) -> Iterator[tuple[Setting, Any]]:
    """Yield the settings in the environment, with their values. Raises ConfigError as `_given` does."""
    variables = {setting.variable: setting for setting in SETTINGS}
    for variable, text in environ.items():
        if variable in variables and text != "":
            setting = variables[variable]
            yield setting, _checked(setting, _from_text(setting, text), variable)


def _unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a warning for each MEMSYNC_ variable that is not a setting: it may belong to another program."""
    names = {setting.variable for setting in SETTINGS} | {"MEMSYNC_CONFIG"}
    unknown = sorted(name for name in environ if name.startswith("MEMSYNC_") and name not in names)
    return [f"{name} is ignored: it is not a setting. {nearest(name, sorted(names))}" for name in unknown]


def _check_trust(
    file: ConfigFile, values: Mapping[str, Any], sources: Mapping[str, str], otherwise: Mapping[str, Any]
) -> None:
    """Refuse what a file that was found decides, unless it may. Raises ConfigError."""
    # Imported here: a start that finds no config file does without it.
    from memsync.settings.trust import is_trusted, risky_settings

    decided = {name: values[name] for name, source in sources.items() if _is_from(source, file)}
    risky = risky_settings(file, decided, otherwise)
    if risky and not is_trusted(file):
        import shlex  # here: settings are read at every start

        name = risky[0]
        variable = next(setting.variable for setting in SETTINGS if setting.name == name)
        raise ConfigError(
            f"{sources[name]}: {name} needs your trust, because memsync found this file by itself",
            hint=f"Read the file. If you trust it, run: memsync trust {shlex.quote(file.path)}\n"
            f"Or set {variable}, or set {name} in {os.path.join(config_folder(), CONFIG_NAME)}",
        )


def _is_from(source: str, file: ConfigFile) -> bool:
    return source == file.path or source.startswith(f"{file.path}:")


def _base(files: _Files, source: str) -> str:
    """Return the folder from which a path counts that came from `source`: its config file's, otherwise this one."""
    for file in (files.own, files.over):
        if file is not None and _is_from(source, file):
            return os.path.dirname(file.path)
    return os.getcwd()


def _checked(setting: Setting, value: Any, where: str) -> Any:
    wanted = type(setting.default)
    if wanted is float and type(value) is int:
        value = float(value)
    if type(value) is not wanted or (wanted is list and not all(isinstance(item, str) for item in value)):
        names = {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list of texts"}
        raise ConfigError(f"{where}: {setting.name} must be {names[wanted]}, not {value!r}", hint=setting.explanation)
    if not setting.accepts(value):
        raise ConfigError(
            f"{where}: {setting.name} must be {setting.expected}, not {value!r}", hint=setting.explanation
        )
    return value


def _from_text(setting: Setting, text: str) -> Any:
    """Return an environment variable's text as the setting's type; what cannot be read is left for the type check."""
    kind = type(setting.default)
    if kind is list:
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind is bool:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    try:
        return kind(text)
    except ValueError:
        return text


def _globs(table: str, files: _Files, sources: dict[str, str]) -> dict[str, str]:
    """Return the defaults of a glob table with the lines of the files after them, so that these win."""
    defaults, allowed, _ = GLOB_TABLES[table]
    globs = dict(defaults)
    for file in (files.own, files.over):
        for glob, value in (file.table(table) if file else {}).items():
            where = file.where(f"{table}.{glob}") if file else ""
            if value not in allowed:
                hint = f"Write one of {', '.join(allowed)}."
                raise ConfigError(f"{where}: {value!r} is not one of {table}", hint=hint)
            globs.pop(glob, None)
            globs[glob] = value
            sources[f"{table}.{glob}"] = where
    return globs
