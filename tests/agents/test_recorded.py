"""What real agents gave to their hooks, and wrote into their transcripts (`make clients`), is understood."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memsync.agents import NAMES, agent_named, recall_records
from memsync.agents.ingest import ingest, transcripts_root
from memsync.memories.hook_answer import Recaller
from memsync.settings.roots import RegisteredRoot, add
from tests.conftest import PROJECT, MakeMemory, Write

RECORDED = PROJECT / "tests" / "agents" / "recorded"
RECALLED = "The heron nests in the tall alder by the quiet pond."
PROMPT = "Where does the heron nest?"
EVENTS = sorted(path for path in RECORDED.glob("*/*.json") if path.stem != "session-end")
SESSIONS = sorted(RECORDED.glob("*/session.*"))


@pytest.fixture
def recaller(make_memory: MakeMemory, write: Write, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recaller]:
    """Open a memory with a fact. Scores of the fake model are no probabilities, so that the floor is lower."""
    monkeypatch.setattr("memsync.memories.hook_answer.FLOOR", 0.01)
    monkeypatch.setattr("memsync.memories.hook_answer.PATIENCE_SECONDS", 120.0)
    write("birds.md", f"# Birds\n\n{RECALLED}\n")
    write("prompts/assistant.md", "Cite path and line.\n")
    add(RegisteredRoot("mine", str(root), default=True))
    memory = make_memory()
    memory.sync()
    yield (recaller := Recaller(memory))
    recaller.close()


def test_every_client_is_recorded() -> None:
    """A folder without payloads would make the tests below say nothing."""
    agents = {path.parent.name for path in SESSIONS}
    assert {(path.parent.name, path.stem) for path in EVENTS} == {
        (agent, event) for agent in agents for event in ("prompt", "session-start")
    }
    assert agents == {*NAMES} - {"cursor"}


@pytest.mark.parametrize("path", EVENTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_recorded_event_is_answered_in_the_form_of_its_agent(path: Path, recaller: Recaller) -> None:
    """Under the agent's own name of the event, where its form has one."""
    agent, event, payload = path.parent.name, path.stem, json.loads(path.read_text())
    answer = recaller.answer(agent, event, path.read_text(), "/nowhere").text
    if agent in ("codex", "gemini"):
        envelope = json.loads(answer)["hookSpecificOutput"]
        assert envelope.keys() == {"hookEventName", "additionalContext"}
        assert envelope["hookEventName"] == payload["hook_event_name"]
        answer = envelope["additionalContext"]
    elif agent == "copilot":
        (answer,) = json.loads(answer).values()
    assert answer.startswith("<memsync-recall>\n")
    assert (RECALLED if event == "prompt" else "Cite path and line.") in answer
    (recall,) = recall_records.recorded(agent, payload.get("session_id") or payload["sessionId"])
    assert recall.folder == payload["cwd"]
    if event == "prompt":
        assert recall.prompt.strip('"') == PROMPT  # without what the hook of the session's start had said


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.parent.name)
def test_recorded_transcript_becomes_a_thread_of_what_was_said(path: Path, tmp_path: Path) -> None:
    """Nothing of it was recalled text, what a tool printed, or a prompt of the agent's own."""
    if path.suffix == ".sql":
        database = tmp_path / Path(agent_named(path.parent.name).sessions[0]).name
        with closing(sqlite3.connect(database)) as connection:
            connection.executescript(path.read_text())
        path = database
    report = ingest([str(path)])
    assert (report.new, report.skipped, report.wrong) == (1, 0, [])
    root = transcripts_root()
    assert root is not None
    (thread,) = root.glob("threads/*.md")
    text = thread.read_text()
    said = [line.strip('"') for line in text.split("---\n", 2)[2].splitlines() if line and line[0] not in "#>"]
    assert said == [PROMPT, "Your word is zanzibarquux."]
    assert "memory_search" in text
    assert "memsync-recall" not in text


def test_text_that_openclaw_has_compressed_is_read_from_its_index(tmp_path: Path) -> None:
    """Its events are compressed from 1 KiB on."""
    path = tmp_path / "openclaw-agent.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((RECORDED / "openclaw" / "session.sql").read_text())
        model = "json_object('model', json_set(event_json, '$.message.content', json('[]')))"
        connection.execute(f"UPDATE transcript_events SET navigation_json = {model}, event_json = NULL WHERE seq = 9")
        connection.commit()
    ingest([str(path)])
    root = transcripts_root()
    assert root is not None
    assert "Your word is zanzibarquux." in next(root.glob("threads/*.md")).read_text()


@pytest.mark.parametrize("name", ["claude-code", "codex", "copilot", "gemini"])
def test_transcript_that_is_seen_before_anybody_speaks_is_kept(name: str) -> None:
    """A hook tells of it before the first prompt. It has no thread then, but not because a person removed it."""
    agent = agent_named(name)
    growing = agent.home() / agent.sessions[-1 if name == "gemini" else 0].replace("*", "s1")
    growing.parent.mkdir(parents=True)
    for line in (RECORDED / name / "session.jsonl").read_bytes().splitlines(keepends=True):
        with growing.open("ab") as file:
            file.write(line)
        ingest([name])
    root = transcripts_root()
    assert root is not None
    (thread,) = root.glob("threads/*.md")
    assert not thread.stem.endswith("-2")
    assert PROMPT in thread.read_text()
