"""The examples of docs/integrations.md run, each if its framework is installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text()
EXAMPLES = {
    re.findall(r"memsync\.integrations\.(\w+)", code)[0]: code
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
}
PACKAGES = {
    "adk": "google.adk", "langchain": "langchain_core", "langgraph": "langgraph.store.base", "strands": "strands",
    "llamaindex": "llama_index.core", "anthropic": "anthropic", "claude_agent_sdk": "claude_agent_sdk",
    "openai_agents": "agents",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKAGES)
def test_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real model, in an empty memory."""
    pytest.importorskip(PACKAGES[name])
    (tmp_path / "notes").mkdir()
    monkeypatch.chdir(tmp_path)
    exec(compile(EXAMPLES[name], name, "exec"), {})
