"""`memsync agents`: the agents of this machine, and what connects them with memsync."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memsync.agents import agent_named, agent_names, agents, names_beginning
from memsync.cli.common import answering, load, own_program
from memsync.cli.hook import pause_file
from memsync.cli.output import CommandAnswer, local_time, say
from memsync.errors import MemsyncError, UsageError
from memsync.model.text import printable
from memsync.system.user_folders import write_own_file

if TYPE_CHECKING:
    from memsync.agents.agent import Agent
    from memsync.agents.connecting import SetupChange

SECTION = "Agents"

PAUSED = "hooks are paused until you run: memsync agents resume"

_name = click.argument(
    "name", shell_complete=names_beginning, callback=lambda _, __, name: agent_named(name).name, metavar="NAME"
)
_yes = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


@click.group("agents", invoke_without_command=True)
@answering
def agents_(context: click.Context) -> CommandAnswer:
    """Connect coding agents with memsync. Without a command, print the agents of this machine (docs/agents.md).

    Prints where each keeps its memory and transcripts, whether it is connected, and what was last recalled for it.

    \b
    memsync agents
    memsync agents connect claude-code
    memsync agents check
    memsync agents disconnect claude-code
    memsync agents snippet
    memsync agents pause
    """
    if context.invoked_subcommand is not None:
        if context.params["as_json"]:
            raise UsageError("--json must come after the command", hint="Write: memsync agents connect NAME --json")
        return CommandAnswer(None)
    from memsync.agents.ingest import transcripts_root
    from memsync.memories.noting import described as of_notes

    described = [_described(agent) for agent in agents() if agent.home().is_dir()]
    remarks = [] if described else ["no agent was found"]
    remarks += [PAUSED] * os.path.exists(pause_file())
    notes = of_notes(transcripts_root(), os.getcwd())
    lines = [line for one in described for line in _lines(one)] + [notes] * bool(described)
    return CommandAnswer({"agents": described, "paused": os.path.exists(pause_file()), "notes": notes}, lines, remarks)


@agents_.command()
@_name
@click.option("--project", is_flag=True, help="Connect it only in the current folder.")
@click.option("--notes", metavar="COMMAND", help="Let COMMAND ('claude -p') word the notes of sessions, not rules.")
@click.option("--dry-run", is_flag=True, help="Print the changes, and change nothing.")
@_yes
@answering
def connect(
    context: click.Context, name: str, project: bool, notes: str | None, dry_run: bool, yes: bool
) -> CommandAnswer:
    """Connect the agent NAME: add hooks and the MCP server to its settings, and register its memory for searches.

    NAME is claude-code, codex, gemini, copilot, cursor, opencode, openclaw or that of a plugin. Prints the changes of
    each file and asks once. All other bytes of these files stay. memsync reads the agent's notes where they are, and
    never writes them. If memsync's plugin is installed, this adds no hooks, and removes those that it added before.
    """
    from memsync.agents.connecting import own_memories, planned, plugged
    from memsync.agents.ingest import transcripts_root
    from memsync.settings.roots import TRANSCRIPTS, default_root, registered_roots, root_for

    agent = agent_named(name)
    if not project and not agent.home().is_dir():
        reason = f"{agent.title} is not on this machine: {agent.home()} does not exist"
        raise UsageError(reason, hint="Start it once, or connect it in a project with --project.")
    in_project = Path.cwd() if project else None
    changes, plugin = planned(agent, own_program(), in_project), plugged(agent, in_project)
    memories: dict[str, tuple[str, tuple[str, ...]]] = {} if project else own_memories(agent)
    known, used = registered_roots(), root_for(os.getcwd())
    default = used.name if used and default_root() is None else ""
    if used is None and (here := _memory_here(context)):
        default = _new_name(here, {*known, *memories, *agent_names(), TRANSCRIPTS})
        memories[default] = (here, ())
    new = [f"registers the memory {own}: {memories[own][0]}" for own in memories if own not in known]
    if default and default not in known:  # it is the last
        new[-1] += ", as the default"
    new += [f"makes the memory {default} the default"] * (default in known)
    new += [f"registers the memory {TRANSCRIPTS}, for conversations"] * (transcripts_root() is None)
    worded_by = {} if notes is None else _worded_by(notes)
    new += [f"lets {notes} word the notes of sessions: it reads them, and may send them to its model"] * bool(notes)
    document = _shown(context, changes, new, is_agreed=yes or dry_run)
    if dry_run:
        return CommandAnswer({**document, "changed": []}, [] if document["diff"] else ["nothing to change"])
    remarks = _carry_out(agent, changes, memories, default, worded_by)
    remarks += [agent.afterwards] * bool(agent.afterwards and (document["changed"] or plugin))
    if document["changed"]:
        remarks += ["these files contain the path of memsync on this machine, so do not commit them"] * project
    remarks += [f"its hooks are those of its plugin: {path}" for path in plugin]
    in_use, more = _in_use()
    return CommandAnswer({**document, "memory": in_use}, [f"{agent.title} is connected"], [*remarks, *more])


def _carry_out(
    agent: Agent,
    changes: Sequence[SetupChange],
    memories: Mapping[str, tuple[str, tuple[str, ...]]],
    default: str,
    worded_by: Mapping[str, Any],
) -> list[str]:
    """Change an agent's files, register memories and keep settings; undo the changes if that fails. Return remarks."""
    from memsync.agents.connecting import SetupChange, apply, connections
    from memsync.agents.ingest import transcripts_root
    from memsync.settings.config_file import set_in_user_file
    from memsync.settings.roots import registered_roots, set_default

    before = connections(agent)
    apply(agent, changes)
    try:
        transcripts_root(create=True)  # so that hooks start its daemon, which takes in the agent's conversations
        remarks = _register(agent, memories)
        if default in registered_roots():
            set_default(default)
        if worded_by:
            set_in_user_file("agents", worded_by)
    except BaseException:
        apply(agent, [SetupChange(path, new, old, before.get(path)) for path, old, new, _ in changes])
        raise
    return remarks


def _in_use() -> tuple[str, list[str]]:
    """Start the daemon that hooks ask, if wanted; return the name of the memory that they use here, and remarks."""
    from memsync.agents.ingest import transcripts_root
    from memsync.cli.hook import settings_to_ask
    from memsync.daemon.autostart import start_if_wanted
    from memsync.memories.noting import described as of_notes
    from memsync.settings.roots import NO_MEMORY, root_for

    remarks = list[str]()
    with suppress(MemsyncError):  # so that the agent's first prompt is answered
        if (asked := settings_to_ask()) is not None:
            start_if_wanted(asked, remarks.append)
    used = root_for(os.getcwd())
    if used is None:
        return "", [*remarks, NO_MEMORY]
    remarks.append(f"in this folder, hooks use the memory {used.name}: {used.place}")
    return used.name, [*remarks, of_notes(transcripts_root(), os.getcwd())]


def _worded_by(notes: str) -> dict[str, Any]:
    """Return the settings that let a command word the notes of sessions. Raises UsageError."""
    try:
        words = shlex.split(notes)
    except ValueError as error:
        raise UsageError(f"--notes {notes}: {error}", hint="Write it as in a shell: --notes 'claude -p'") from error
    if not words or (words not in (["rules"], ["off"]) and shutil.which(words[0]) is None):
        raise UsageError(f"--notes {notes}: there is no such program", hint="Name a program, or rules or off.")
    return {"notes": words, "notes_remote": words not in (["rules"], ["off"])}


def _new_name(folder: str, taken: AbstractSet[str]) -> str:
    """Return the name under which to register a folder: its own, with a number if that is taken."""
    own_name = re.sub(r"[^a-z0-9_-]+", "-", os.path.basename(folder).lower()).strip("-")[:60] or "notes"
    names = (own_name, *(f"{own_name}-{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)


def _memory_here(context: click.Context) -> str:
    """Return the memory root that the current folder is in; empty if it is in none."""
    with suppress(MemsyncError):
        return load(context).root_name
    return ""


@agents_.command()
@_name
@_yes
@answering
def disconnect(context: click.Context, name: str, yes: bool) -> CommandAnswer:
    """Remove everything that connect added for the agent NAME, and unregister its memory.

    A file that was not edited since gets back the bytes that it had before connect.
    """
    from memsync.agents.connecting import taken_back

    agent = agent_named(name)
    changes, remarks = taken_back(agent, own_program())
    document = _shown(context, changes, [], is_agreed=yes)
    take_back(agent, changes)
    done = "is disconnected" if changes else "was not connected"
    return CommandAnswer(document, [f"{agent.title} {done}"], remarks, code=int(bool(remarks)))


def take_back(agent: Agent, changes: Sequence[SetupChange]) -> None:
    """Make the changes that disconnect an agent, and unregister its own memories. Raises MemsyncError."""
    from memsync.agents.connecting import apply
    from memsync.settings.roots import OWN_MEMORY, registered_roots, remove_root

    apply(agent, changes)
    for own in (agent.name, agent.name + OWN_MEMORY):
        if (root := registered_roots().get(own)) and root.only:
            remove_root(own)


@agents_.command()
@answering
def check(_: click.Context) -> CommandAnswer:
    """Run the hooks of each connected agent as the agent does, and print the text that would reach its model.

    The hooks get a trial event, for which memsync searches no memory and records nothing. Then the daemon gets a
    question, as hooks ask it. Exits with 1 if a hook delivers nothing, if two would deliver the same, if no memory is
    used in this folder, if the daemon does not answer, or if the agent's settings turn hooks off or delete transcripts
    early. Also says if a fault kept hooks silent in the last day, and if the agent's version was not tried.
    """
    from memsync.agents.checking import MAX_SECONDS, faults, installed, untried_version
    from memsync.agents.connecting import plugged
    from memsync.agents.recall_records import failures
    from memsync.cli.hook import settings_to_ask, trial
    from memsync.settings.load import default_of
    from memsync.settings.paths import is_in_any
    from memsync.settings.roots import NO_MEMORY, root_for

    is_off = is_in_any(str(Path.cwd()), default_of("agents.off"))
    if os.path.exists(pause_file()):
        return CommandAnswer({"agents": [], "paused": True}, [], [PAUSED], code=1)
    folder, found, lines, deadline = Path.cwd(), [], [], time.monotonic() + MAX_SECONDS
    for agent in agents():
        said, wrong, plugin = dict[str, str](), list[str](), list[str]()
        try:
            if not installed(agent, folder):
                continue
            plugin = plugged(agent, folder)
            wrong += faults(agent, folder, said, deadline)
        except MemsyncError as error:  # perhaps a clone's broken file: check the other agents, too
            wrong.append(error.sentences())
        warnings = [*filter(None, [untried_version(agent)])]
        found.append({"name": agent.name, "plugin": plugin, "heard": said, "faults": wrong, "warnings": warnings})
        lines += [f"{agent.name}  is connected by its plugin: {path}" for path in plugin]
        lines += [f"{agent.name}  {event} delivers: {' '.join(text.split())}" for event, text in said.items()]
        lines += [f"{agent.name}  {fault}" for fault in (*wrong, *warnings)]
    asked = settings_to_ask() if found else None
    while (silence := trial(asked)) and time.monotonic() < deadline:
        time.sleep(0.5)
    remarks = [] if found else ["no agent is connected here: memsync agents connect NAME"]
    remarks += ["the setting agents.off turns recall off in this folder"] * is_off
    remarks += [NO_MEMORY] * (bool(found) and root_for(str(folder)) is None)
    remarks += [f"the daemon does not answer a question: {silence}"] * bool(silence) + [*filter(None, [failures()])]
    is_well = bool(found) and NO_MEMORY not in remarks and not silence and not any(one["faults"] for one in found)
    return CommandAnswer({"agents": found, "paused": False}, lines, remarks, code=int(not is_well))


@agents_.command()
@click.option("--skill", "is_skill", is_flag=True, help="Print it as the skill `memory` (SKILL.md).")
@answering
def snippet(_: click.Context, is_skill: bool) -> CommandAnswer:
    """Print Markdown for an AGENTS.md that tells a model when to search, log and remember.

    It is for agents without hooks. With MCP or without, because it names the commands, too.

    \b
    memsync agents snippet >> AGENTS.md
    memsync agents snippet --skill > ~/.agents/skills/memory/SKILL.md
    """
    from memsync.agents.plugin_files import agents_md, skill

    text = skill() if is_skill else agents_md()
    return CommandAnswer({"text": text}, text.splitlines())


@agents_.command()
@answering
def pause(_: click.Context) -> CommandAnswer:
    """Stop all hooks from recalling anything, until you run: memsync agents resume."""
    write_own_file(pause_file(), b"")
    return CommandAnswer({"paused": True}, [PAUSED])


@agents_.command()
@answering
def resume(_: click.Context) -> CommandAnswer:
    """Let hooks recall again after memsync agents pause."""
    Path(pause_file()).unlink(missing_ok=True)
    return CommandAnswer({"paused": False}, ["hooks recall again"])


def _described(agent: Agent) -> dict[str, Any]:
    """Return the facts about an agent on this machine."""
    from memsync.agents.checking import hooks_in
    from memsync.agents.connecting import connections, places, plugged
    from memsync.agents.recall_records import last_delivered

    home, last, connected, plugin = agent.home(), last_delivered(agent.name), list[str](), list[str]()
    with suppress(MemsyncError):
        plugin = plugged(agent)
    for path in dict.fromkeys([*(path for _, path in places(agent, None)), *connections(agent), *plugin]):
        with suppress(MemsyncError):  # the agent cannot read hooks from a broken file either
            connected += [path] * any(hooks_in(agent, path))
    return {
        "name": agent.name,
        "home": str(home),
        "memory": list(agent.memory),
        "notes": sum(1 for pattern in agent.memory for _ in home.glob(pattern)),
        "sessions": list(agent.sessions),
        "transcripts": sum(1 for pattern in agent.sessions for _ in home.glob(pattern)),
        "connected": connected,
        "plugin": plugin,
        "last_recall": last.time if last else "",
        "last_recalled": [line.citation for line in last.lines if not line.held] if last else [],
    }


def _lines(one: dict[str, Any]) -> Iterator[str]:
    """Yield the lines to print about an agent."""
    name, home, *facts = one.items()
    yield f"{name[1]}  {home[1]}"
    for key, value in facts:
        text = ", ".join(value) if isinstance(value, list) else local_time(str(value))
        yield f"  {key.replace('_', ' ')}: {text or 'none'}"


def _shown(
    context: click.Context, changes: Sequence[SetupChange], new: Sequence[str], *, is_agreed: bool
) -> dict[str, Any]:
    """Print the changes of files and the sentences in `new`, ask for confirmation, and return them as a document.

    Raises UsageError without a terminal to ask on, click.Abort if the user says no.
    """
    from memsync.agents.connecting import diff_of

    edits = [change for change in changes if change.new != change.old]
    lines = [line for change in edits for line in diff_of(change)] + [*new]
    if not context.params["as_json"]:
        for line in lines:
            say(printable(line.replace("\t", "    ")))
    if lines and not is_agreed:
        if context.params["as_json"] or not (sys.stdin.isatty() and sys.stdout.isatty()):
            hint = "Add --yes to agree. To see the changes of connect, add --dry-run."
            reason = "this needs your agreement, and there is no terminal to ask on. Nothing was changed"
            raise UsageError(reason, hint=hint)
        if not click.confirm("Make these changes?", err=True):
            raise click.Abort
    return {"agent": context.params["name"], "changed": [change.path for change in edits], "diff": "\n".join(lines)}


def _register(agent: Agent, memories: Mapping[str, tuple[str, tuple[str, ...]]]) -> list[str]:
    """Register the agent's own memories, and return a remark about each that could not be registered."""
    from memsync.settings.registering import add_root
    from memsync.settings.roots import registered_roots

    remarks = []
    for name, (folder, only) in memories.items():
        known = registered_roots().get(name)
        if known is None or (known.path, known.only) != (folder, only):
            try:
                add_root(name, folder, only)
            except MemsyncError as error:
                remarks.append(f"the memory of {agent.title} is not registered: {error.sentences()}")
    return remarks
