"""The pages in a browser: from the press of a key to the hits on the screen, with the daemon."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import Row
from benchmarks.measures import rfc_questions
from benchmarks.memories import running
from memsync.search.retrievals import percentile

if TYPE_CHECKING:
    from playwright.sync_api import Page

QUESTIONS = 12
WARMING = 2
PAUSE_MS = 150
"""Between two keys: a person types about so fast."""
MOST_MS = 60.0
# For each key the time until the hits have changed and are painted: after the frame in which they changed.
_WATCH = """() => {
  let pressed = 0;
  window.times = [];
  document.querySelector("#q").addEventListener("input", (event) => { pressed = event.timeStamp; }, true);
  new MutationObserver(() => requestAnimationFrame(() => setTimeout(() => {
    if (pressed) window.times.push(performance.now() - pressed);
    pressed = 0;
  }))).observe(document.querySelector("#hits"), { childList: true });
}"""


def typing(data: Path, state: Path) -> list[Row]:
    """Type questions about the RFCs, and time the hits after each key."""
    measure = "typing on rfcs/, from key to hits in the browser"
    executable = shutil.which("chromium")
    if executable is None:
        return [Row(measure, "skipped: no chromium")]
    from playwright.sync_api import sync_playwright

    questions = rfc_questions(data)[: QUESTIONS + WARMING]
    with running(data / "rfcs", state) as daemon, sync_playwright() as playwright:
        daemon.settle()
        link = json.loads(daemon.run("web", "--no-browser", "--port", "0", "--json").stdout)["link"]
        with playwright.chromium.launch(executable_path=executable) as browser:
            page = browser.new_page()
            page.goto(link)
            times = _typed(page, questions)
    p50, p95 = percentile(times, 0.5), percentile(times, 0.95)
    figure = f"{p50:.0f} ms, p95 {p95:.0f} ms, {len(times)} keys"
    return [Row(f"{measure}: p50", figure, f"≤ {MOST_MS:.0f} ms", p50 <= MOST_MS)]


def _typed(page: Page, questions: Sequence[str]) -> list[float]:
    """Return the milliseconds after each key whose hits were shown before the next key."""
    page.evaluate(_WATCH)
    for number, question in enumerate(questions):
        if number == WARMING:
            page.evaluate("window.times = []")
        page.fill("#q", "")
        page.locator("#q").press_sequentially(question, delay=PAUSE_MS)
        page.wait_for_timeout(PAUSE_MS)
    return [float(time) for time in page.evaluate("window.times")]
