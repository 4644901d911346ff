"""English words that a search ignores.

Both longer and shorter lists did worse on the questions of the benchmarks.
"""

from __future__ import annotations

_WORDS = """
    a an and are as at be been being but by can could did do does for from had has have he her him his how i if in
    into is it its me my no not of on or our she should such that the their then there these they this to us was we
    were what when where which who whom whose why will with would you your
"""
STOP_WORDS = frozenset(_WORDS.split())
