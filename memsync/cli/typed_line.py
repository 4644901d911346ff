"""A command line as it was typed: what is known of it before click reads it."""

from __future__ import annotations

from collections.abc import Container, Sequence

INTERRUPTED_EXIT_CODE = 130
INTERRUPTED = "Interrupted. Nothing was damaged; run the command again to finish."
GLOBAL_OPTIONS = {"--config": "config_path", "--root": "root", "--color": "color"}
"""The options that may come before or after the command, and click's names for their values."""


def split_global_options(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the values of the global options, and the other arguments."""
    options: dict[str, str] = {}
    rest: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        flag, equals, value = argument.partition("=")
        if argument == "--":
            rest += [argument, *remaining]
        elif flag not in GLOBAL_OPTIONS:
            rest.append(argument)
        else:
            value = value if equals else next(remaining, "")
            if not value:
                return {}, []  # click says what is missing
            options[flag] = value
    return options, rest


def served_path(arguments: Sequence[str], served: Container[str]) -> str:
    """Return the path of a command that a daemon runs, such as `get` or `thread list`; empty for any other."""
    return next((path for path in (" ".join(arguments[:2]), *arguments[:1]) if path in served), "")


def may_name_roots(several: str, argument: str) -> bool:
    """Return whether an argument may name registered memories, for an operation that can ask several with `several`.

    It may be an option, `root:NAME` in a query, or `NAME:PATH`.
    """
    if several == "query":  # and not Several.QUERY, because a served command imports no operation
        return "root:" in argument or argument.startswith(("--roots", "--all-roots"))
    name, _, rest = argument.partition(":")
    has_lines = all(map(str.isdigit, rest.replace("-", ":", 1).split(":", 1)))  # a day has two hyphens
    return bool(several and rest) and not has_lines and name.replace("-", "").replace("_", "").isalnum()


def looks_like_option(argument: str) -> bool:
    """Return whether an argument has the form of an option: `-x`, `--name`, `--name=value`, not `-` or "- an item"."""
    name = argument.partition("=")[0]
    return len(name) > 1 and name.startswith("-") and name.split() == [name]
