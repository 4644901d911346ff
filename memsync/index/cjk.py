"""Words for scripts that are written without spaces: overlapping pairs of characters.

SQLite's unicode61 takes a whole run of Chinese, Japanese, Korean or Thai as one word, so that only the whole run is
ever found. Every run is therefore also indexed as bigrams, and a query's run is looked up as a phrase of bigrams.
The last character of a run stands once more by itself, so that a one-character query (a prefix query) finds it there.
"""

from __future__ import annotations

import re

_RUN = re.compile(
    "[\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"  # kana, Han
    "\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+"  # Hangul, compatibility, rarer Han
)


def cjk_runs(text: str) -> list[str]:
    """Return the runs of unspaced script in `text`, in order."""
    return _RUN.findall(text)


def without_cjk(text: str) -> str:
    """Return `text` with each run of unspaced script replaced by a space."""
    return text if text.isascii() else _RUN.sub(" ", text)


def bigrams(run: str) -> list[str]:
    """Return the overlapping pairs of one run; a single character stands for itself."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def cjk_words(text: str) -> str:
    """Return what the word index holds for the unspaced runs of `text`, separated by spaces."""
    return " ".join(" ".join([*bigrams(run), run[-1]] if len(run) > 1 else [run]) for run in cjk_runs(text))
