"""Write the plugins of agents into integrations/, and the two marketplace files that name them: `make plugins`.

The texts come from memsync/agents; here are only the READMEs and what publishing needs. The plugins run the command
`memsync` from PATH.
"""

from __future__ import annotations

import json
from pathlib import Path

from memsync.agents import agent_named
from memsync.agents.agent import NAME, Agent, Caller
from memsync.agents.plugin_files import AUTHOR, DESCRIPTION

PROJECT = Path(__file__).resolve().parent.parent
FOLDER = "integrations"
HOOK = "sh -c 'memsync \"$@\" 2>/dev/null || :' memsync hook {event} --agent {agent}"
"""Exits with 0 and prints nothing if there is no memsync, in every shell that an agent may use."""
INSTALL = {
    "claude-code": "claude plugin marketplace add ./\nclaude plugin install memsync@memsync",
    "codex": "codex plugin marketplace add ./\ncodex plugin add memsync@memsync",
    "gemini": "gemini extensions install ./integrations/gemini",
    "opencode": 'opencode plugin --global "$PWD/integrations/opencode"',
    "openclaw": "openclaw plugins install ./integrations/openclaw\n"
    "openclaw config set plugins.entries.memsync.hooks.allowConversationAccess true",
}
"""How each agent installs its plugin, in a clone of this repository."""
README = """# memsync for {title}

{description}

In a clone of this repository:

```console
$ uv tool install .
{install}
$ memsync agents connect {name}
$ memsync agents check
```

`connect` registers the memories that the hooks search; it sees the plugin, and adds no hooks of its own. {more}

`make plugins` writes these files from `memsync/agents/plugin_files.py`. Do not edit them.
"""


def contents() -> dict[str, str]:
    """Return the text of each file, by its path in the repository."""
    texts: dict[str, str] = {}
    for agent in map(agent_named, INSTALL):
        made = {path: make(["memsync"], caller(agent)) for path, make in agent.plugin.items()}
        texts |= {f"{FOLDER}/{agent.name}/{path}": text for path, text in {**made, "README.md": readme(agent)}.items()}
    return {**texts, **marketplaces()}


def caller(agent: Agent) -> Caller:
    return lambda event: HOOK.format(event=event, agent=agent.name)


def readme(agent: Agent) -> str:
    install = "\n".join(f"$ {line}" for line in INSTALL[agent.name].splitlines())
    more = agent.afterwards or "Without memsync on PATH, the plugin does nothing."
    return README.format(title=agent.title, name=agent.name, description=DESCRIPTION, install=install, more=more)


def marketplaces() -> dict[str, str]:
    """Return the files in which Claude Code and Codex look for the plugins of a repository."""
    claude = {"name": NAME, "description": DESCRIPTION, "source": f"./{FOLDER}/claude-code"}
    codex = {
        "name": NAME,
        "source": {"source": "local", "path": f"./{FOLDER}/codex"},
        "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
        "category": "Productivity",
    }
    found = {
        ".claude-plugin/marketplace.json": {
            "name": NAME,
            "description": DESCRIPTION,
            "owner": AUTHOR,
            "plugins": [claude],
        },
        ".agents/plugins/marketplace.json": {"name": NAME, "plugins": [codex]},
    }
    return {path: json.dumps(value, indent=2) + "\n" for path, value in found.items()}


def main() -> None:
    for path, text in contents().items():
        (PROJECT / path).parent.mkdir(parents=True, exist_ok=True)
        (PROJECT / path).write_text(text)


if __name__ == "__main__":
    main()
