"""`make bench BENCH_DATA=FOLDER`: run the measurements and print one table.

    python -m benchmarks --data FOLDER                    everything
    python -m benchmarks --data FOLDER locomo search      some of it
    python -m benchmarks start unchanged                  what needs no data folder
    python -m benchmarks --data FOLDER --rerank           the measurements of quality, each search with --rerank
    python -m benchmarks --data FOLDER million --chunks N a search of N chunks in PostgreSQL (not part of everything)

What counts are ratios: both times are measured in turn in one run, and the ratio is a median of at least five. Exits
with 1 when a figure misses its target.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import (
    assistant,
    backends,
    contradictions,
    everyday,
    indexing,
    knowledge,
    languages,
    links,
    live,
    million,
    paragraphs,
    past,
    quality,
    recall,
    roots,
    search,
    secrets,
    served,
    slips,
    start,
    verbatim,
    web,
    writing,
)
from benchmarks.figures import Row

WITH_DATA: dict[str, Callable[[Path, Path], list[Row]]] = {
    "cold": indexing.throughput,
    "rfcs": quality.rfcs,
    "facts": quality.facts,
    "faq": quality.faq,
    "size": indexing.size_and_memory,
    "locomo": quality.locomo,
    "assistant": assistant.conversations,
    "verbatim": verbatim.known_items,
    "slips": slips.typing_errors,
    "context": quality.context,
    "search": search.real,
    "large": search.large,
    "edit": indexing.one_paragraph,
    "commands": served.commands,
    "clients": served.clients,
    "while": served.while_indexing,
    "footprint": served.memory_and_idle,
    "knowledge": knowledge.from_the_first_minute,
    "sync": backends.syncs,
    "backends": backends.clients,
    "wide": backends.wide,
    "roots": roots.five,
    "recall": recall.hooks,
    "paragraphs": paragraphs.asked_in_both,
    "secrets": secrets.found_and_false,
    "contradictions": contradictions.planted_pairs,
    "links": links.moves,
    "past": past.states,
    "web": web.typing,
}
RERANKED: dict[str, Callable[[Path, Path], list[Row]]] = {
    name: partial(getattr(quality, name), rerank=True) for name in ("rfcs", "facts", "faq", "locomo")
}
BY_NAME = {"million": million.searches}
"""Slow measurements: a run of everything leaves them out. Each takes a number of chunks."""
WITHOUT_DATA: dict[str, Callable[[Path], list[Row]]] = {
    "unchanged": indexing.unchanged,
    "start": start.imports,
    "live": live.saved_to_found,
    "writing": writing.appends,
    "threads": writing.threads,
    "import": writing.imports,
    "sessions": writing.sessions,
    "mcp": start.mcp,
    "languages": languages.both_models,
    "everyday": everyday.small_memories,
    "pairs": contradictions.written_pairs,
}


def main() -> int:
    """Run the chosen measurements and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with rfcs/, rfcs.questions.jsonl, locomo/ and vault/")
    parser.add_argument("--state", type=Path, help="keep indexes here between runs (default: a temporary folder)")
    parser.add_argument("--rerank", action="store_true", help=f"rerank the hits of {', '.join(RERANKED)}")
    parser.add_argument("--chunks", type=int, default=million.CHUNKS, help="size of million (default: %(default)s)")
    every = [*WITH_DATA, *WITHOUT_DATA, *BY_NAME]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(every)}")
    arguments = parser.parse_args()
    by_name = {name: partial(measure, chunks=arguments.chunks) for name, measure in BY_NAME.items()}
    with_data = RERANKED if arguments.rerank else WITH_DATA | by_name
    measurements = [*with_data] if arguments.rerank else every
    names = arguments.names or [name for name in measurements if name not in BY_NAME]
    unknown = set(names).difference(measurements)
    if unknown:
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}")
    print(f"{platform.machine()}, {platform.system()} {platform.release()}, Python {platform.python_version()}\n")
    print("| measure | figure | asked | |\n|---|---|---|---|")
    data, missed = arguments.data, 0
    with tempfile.TemporaryDirectory() as scratch:
        state = arguments.state or Path(scratch)
        state.mkdir(parents=True, exist_ok=True)
        for name in names:
            if name in WITHOUT_DATA:
                rows = WITHOUT_DATA[name](state)
            elif data is None or not data.is_dir():
                rows = [Row(name, "skipped: no data folder (--data FOLDER, or make bench BENCH_DATA=FOLDER)")]
            else:
                rows = with_data[name](data, state)
            for row in rows:
                print(row, flush=True)
            missed += sum(row.met is False for row in rows)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
