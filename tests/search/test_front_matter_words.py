"""Values of front matter, tasks and templates in searches: what is found by word, and what is left out."""

from __future__ import annotations

import base64

import pytest

from memsync.memory import Memory
from tests.conftest import FakeEmbedder, Write

HEAD = """---
title: Zoe Miller
aliases: [zoe]
phone: +41 79 123 45 67
mail: zoe.m@example.org
birthday: 2024-05-03
addresses:
  - street: Bahnhofstrasse 12
    town: "Zürich"
flow: {car: [volvo, {plate: ZH 4711}]}
---
"""


def lines(memory: Memory, query: str, mode: str = "hybrid") -> list[str]:
    return [f"{hit.citation} {hit.text}" for hit in memory.search(query, mode=mode, limit=50, min_score=0).hits]


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("+41 79 123 45 67", "a.md:4 phone: +41 79 123 45 67"),
        ('"123 45 67"', "a.md:4 phone: +41 79 123 45 67"),
        ("zoe.m@example.org", "a.md:5 mail: zoe.m@example.org"),
        ("2024-05-03", "a.md:6 birthday: 2024-05-03"),
        ('"Bahnhofstrasse 12"', "a.md:8   - street: Bahnhofstrasse 12"),
        ("all:zürich", 'a.md:9     town: "Zürich"'),
        ("volv*", "a.md:10 flow: {car: [volvo, {plate: ZH 4711}]}"),
        ("plate ZH 4711", "a.md:10 flow: {car: [volvo, {plate: ZH 4711}]}"),
    ],
)
@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
def test_each_value_of_front_matter_is_found_by_word(
    memory: Memory, write: Write, query: str, line: str, mode: str
) -> None:
    """With the line that it is on, also in lists and nested values; dates and numbers as they are typed."""
    write("a.md", f"{HEAD}\nShe likes herons.\n")
    write("b.md", "Something else.\n")
    memory.sync()
    assert lines(memory, query, mode)[0] == line


def test_front_matter_gets_no_vector_and_no_hit_for_title_and_aliases(
    memory: Memory, write: Write, embedder: FakeEmbedder
) -> None:
    """Only prose is embedded. Title, tags and aliases are words of each passage, so they find the note's text."""
    write("a.md", f"{HEAD.replace('79 123 45 67', '791234567')}\nShe likes herons.\n")
    memory.sync()
    assert embedder.seen == ["She likes herons."]
    assert "a.md:13 She likes herons." in lines(memory, "zoe miller", "keyword")
    assert not [line for line in lines(memory, "zoe miller", "keyword") if line.startswith(("a.md:2", "a.md:3"))]
    assert lines(memory, "kind:note") == ["a.md:13 She likes herons."]


def test_hugo_values_are_found(memory: Memory, write: Write) -> None:
    """As those of YAML."""
    write("a.md", '+++\ntitle = "x"\n[params]\nphone = "079 555 11 22"\n+++\n\nBody.\n')
    assert lines(memory, '"555 11 22"') == ['a.md:4 phone = "079 555 11 22"']


TASKS = """# Plan

We repair the boat this week.

- [ ] buy paint #boat
- [x] sell the old boat
- no task here
  - [ ] call Anna about the boat

1. [X] order wood
"""


@pytest.mark.parametrize("path", ["plan.md", "daily/2026-11-20.md"])
@pytest.mark.parametrize("mode", ["keyword", "vector"])
def test_tasks_are_found_by_their_state(memory: Memory, write: Write, path: str, mode: str) -> None:
    """Each task alone, together with any other filter; an item counts with the tasks in it."""
    write(path, TASKS)
    write("code.md", "```\n- [ ] no task\n```\n")
    memory.sync()

    def text(query: str) -> str:
        return "\n".join(hit.text for hit in memory.search(query, mode=mode, limit=50, min_score=0).hits)

    assert "- [ ] buy paint #boat" in text("boat is:todo") and "call Anna" in text("boat is:todo")
    assert not [words for words in ("sell", "repair", "order") if words in text("boat is:todo")]
    assert "sell the old boat" in text("boat is:done") and "paint" not in text("boat is:done")
    assert text("boat is:todo tag:boat") == "- [ ] buy paint #boat"
    assert text('is:todo "call Anna"') == "- no task here\n  - [ ] call Anna about the boat"
    assert "paint" not in text("boat is:todo -paint")


def test_tasks_alone_are_listed_newest_first(memory: Memory, write: Write) -> None:
    """A query of filters needs no words."""
    for day in ("2026-11-19", "2026-11-21", "2026-11-20"):
        write(f"daily/{day}.md", f"- [ ] task of {day}\n- [x] done\n- other\n")
    assert lines(memory, "is:todo") == [
        f"daily/{day}.md:1 - [ ] task of {day}" for day in ("2026-11-21", "2026-11-20", "2026-11-19")
    ]
    assert len(lines(memory, "is:done")) == 3


TEMPLATES = {
    "Templates/day.md": "# Heron day\n\nWrite about the heron.\n",
    "work/templates/x.md": "The heron is due.\n",
    "new.md": "---\ndate: {{date}}\ntags: daily\n---\n# {{title}}\n\n## Heron\n- [ ] \n",
    "meeting.md": '---\ncreated: <% tp.date.now("YYYY") %>\n---\n# <% tp.file.title %>\n\nHeron:\n',
}


def test_templates_are_left_out_like_archived_notes(memory: Memory, write: Write) -> None:
    """By their folder or their placeholders; `archived: false` and text of one's own make it a note."""
    for path, text in TEMPLATES.items():
        write(path, text)
    write("real.md", "The heron.\n\nWrite {{date}} and {{title}} into a template.\n\nMore of it.\n")
    write("templates/kept.md", "---\narchived: false\n---\nThe heron stays.\n")
    write("prompts/p.md", "{{heron}}\n")
    kept = {"real.md", "templates/kept.md", "prompts/p.md"}
    assert {hit.path for hit in memory.search("heron", mode="keyword").hits} == kept
    every = {hit.path for hit in memory.search("heron is:archived", mode="keyword").hits}
    assert every == kept | set(TEMPLATES)


BLOB = base64.b64encode(bytes(range(256)) * 4).decode()
DRAWING = "\n\n".join(BLOB[start : start + 256] for start in range(0, len(BLOB), 256))


@pytest.mark.parametrize(
    "text",
    [
        f"%%\n# Drawing\n```compressed-json\n{DRAWING}\n```\n%%\n",
        f"# Picture\n\n![heron](data:image/png;base64,{BLOB})\n",
        f"[image1]: <data:image/png;base64,{BLOB}>\n",
        f"{BLOB[:64]}\n{BLOB[64:128]}\n{BLOB[128:150]}==\n",
    ],
)
def test_encoded_data_is_no_text(memory: Memory, write: Write, embedder: FakeEmbedder, text: str) -> None:
    """Drawings, pictures and keys have neither words nor vectors; the text beside them has."""
    write("drawing.md", f"# Heron\n\nA sketch of the heron.\n\n{text}\n## After\n\nThe pond.\n")
    memory.sync()
    assert not [passage for passage in embedder.seen if len(max(passage.split(), key=len)) > 40 or "==" in passage]
    found = lines(memory, "sketch heron pond")
    assert found and not [line for line in found if BLOB[:50] in line]
    with memory.index.reading() as reader:
        assert len(max((str(line) for line in reader.dump() if '"word"' in line), key=len)) < 200


@pytest.mark.parametrize(
    "text", ["x" * 300, "/home/Ada/Notes/2026/Projects/Boat/Paint/Red/And/Blue/For/The/Hull/New", "ABC" * 50]
)
def test_a_long_word_is_text(memory: Memory, write: Write, text: str) -> None:
    """Only what can be nothing but base64 is left out."""
    write("a.md", f"{text}\n")
    assert len(lines(memory, text[:100] if "/" in text else text)) == 1


def test_a_heading_without_text_is_found_by_its_own_words_alone(memory: Memory, write: Write) -> None:
    """It says nothing else; a question with more words finds text instead."""
    write("a.md", "# Garden\n\n## Wading birds\n")
    write("b.md", "Birds sing in the garden.\n")
    assert "a.md:3 ## Wading birds" in lines(memory, "wading birds", "keyword")
    assert [line.partition(" ")[0] for line in lines(memory, "wading birds in winter", "keyword")] == ["b.md:1"]
