"""memsync as a plugin of an agent: one description for models, and the files around it.

`tools/integrations.py` writes the plugins into integrations/, with the command `memsync` from PATH. `memsync agents
connect` writes those of Gemini, OpenCode and OpenClaw, with this program's full path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from memsync import __version__
from memsync.agents.agent import NAME, Caller, Maker, SetupFile, below

DESCRIPTION = "Long-term memory in Markdown files: recalled before each prompt, searched and written by tools."
USE = (
    "Search and write the long-term memory of the user and their agents. Use it before you answer, plan or choose "
    'anything that may have come up before (people, projects, decisions, preferences, "continue", "as last time"); '
    'when the user says to remember something, says "always", "never" or "from now on", or corrects you; and after '
    "work that other conversations will need to know about."
)
"""When a model should read the skill."""
COMMANDS = {
    "recall": (
        "Search the memory, and answer with path and line.",
        "Search the memory (the tool memory_search, or `memsync search` in a shell) for: ARGUMENTS\n\n"
        "Without words, search for what this conversation is about. Answer from the hits alone, each with its "
        "path:line. If there are none, say so.",
    ),
    "remember": (
        "Add a line to long-term memory.",
        "Add this to the memory (the tool memory_remember, or `memsync remember` in a shell): ARGUMENTS\n\n"
        "Without words, take what the user last decided or corrected here. Search first: do not repeat a line, and "
        "supersede an agent's line that no longer holds. Then say path:line of what you wrote.",
    ),
}
"""Command -> its description, and the prompt that the model gets."""
BY_THE_USER = {"disable_model_invocation": True}
BY_A_SKILL = "what the user wrote after the command"
VERSION = re.sub(r"(?<=\d)\.?(?=[a-z])", "-", __version__, count=1)
"""memsync's version in the form of npm: 1.0.0rc1 is 1.0.0-rc1."""
HEAD = {"name": NAME, "version": VERSION, "description": DESCRIPTION}
"""How the description of a plugin begins."""
AUTHOR = {"name": "The memsync contributors"}


def guide() -> str:
    """Return what tells a model when to search and what to write, as Markdown without a heading."""
    return resources.files("memsync.agents").joinpath("plugins", "memory.md").read_text()


def skill() -> str:
    """Return the guide as a SKILL.md with the name `memory`."""
    return _headed("# Memory\n\n" + guide(), name="memory", description=USE)


def agents_md() -> str:
    """Return the guide as a section of an AGENTS.md."""
    return "## Memory\n\n" + guide()


def prompt(name: str, arguments: str) -> str:
    """Return the prompt of a command; `arguments` is how an agent marks what the user wrote after it."""
    return COMMANDS[name][1].replace("ARGUMENTS", arguments)


def _headed(text: str, **head: Any) -> str:
    lines = (f"{key.replace('_', '-')}: {json.dumps(value)}\n" for key, value in head.items())
    return f"---\n{''.join(lines)}---\n\n{text.rstrip()}\n"


def _made(make: Callable[..., str], *of: str) -> Maker:
    return lambda program, call: make(*of)


SKILL: Mapping[str, Maker] = {"skills/memory/SKILL.md": _made(skill)}


def command_files(form: str, make: Callable[[str], str]) -> dict[str, Maker]:
    """Return a file for each command: `form` is its path with {}, and `make` returns its text."""
    return {form.format(name): _made(make, name) for name in COMMANDS}


def as_markdown(name: str) -> str:
    """Return a command as Claude Code reads it."""
    return _headed(prompt(name, "$ARGUMENTS"), description=COMMANDS[name][0], argument_hint="[WORDS]", **BY_THE_USER)


def as_toml(name: str) -> str:
    """Return a command as Gemini reads it."""
    members = {"description": COMMANDS[name][0], "prompt": prompt(name, "{{args}}")}
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in members.items())


def as_skill(name: str) -> str:
    """Return a command as a skill that only the user calls."""
    head = {"name": name, "description": COMMANDS[name][0]}
    return _headed(prompt(name, BY_A_SKILL), **head, **BY_THE_USER)


def extension(folder: Callable[[], Path], files: Mapping[str, Maker]) -> tuple[SetupFile, ...]:
    """Return the files of a plugin in the folder from which the agent loads it."""
    return tuple(SetupFile(below(folder, *path.split("/")), None, make) for path, make in files.items())


def script(name: str) -> Maker:
    """Return the maker of a file of plugins/, with memsync's command and the prompts of the commands in it."""
    file = resources.files("memsync.agents").joinpath("plugins", name)
    commands = {
        name: {"description": about, "template": prompt(name, "$ARGUMENTS")} for name, (about, _) in COMMANDS.items()
    }

    def text(program: Sequence[str], _: Caller) -> str:
        words = json.dumps([*program, "hook"])
        return (
            file.read_text()
            .replace('["memsync"]', words, 1)
            .replace("commands = {}", f"commands = {json.dumps(commands)}")
        )

    return text
